#include "common/statistics/series.h"

#include <algorithm>
#include <vector>

namespace busbar {
namespace {

double interquartile_range(std::span<const double> sorted) { return quantile(sorted, 0.75) - quantile(sorted, 0.25); }

}  // namespace

std::optional<Modes> two_modes(std::span<const double> values) {
  const std::vector<double> sorted = in_order(values, "modes");
  const std::size_t n = sorted.size();
  if (n < 8) return std::nullopt;  // a quarter is two values then
  const std::size_t first = n / 10;
  const std::size_t last = n - 1 - n / 10;
  std::vector<double> gaps;
  for (std::size_t i = first; i < last; ++i) gaps.push_back(sorted[i + 1] - sorted[i]);
  const auto widest = std::max_element(gaps.begin(), gaps.end());
  const std::size_t below = first + static_cast<std::size_t>(widest - gaps.begin()) + 1;
  if (*widest <= 5 * median(gaps) || 4 * below < n || 4 * (n - below) < n) return std::nullopt;
  const std::span<const double> low(sorted.data(), below);
  const std::span<const double> high(sorted.data() + below, n - below);
  // The widest of many gaps is often 5 times the median one without any modes (in every fifth series of 20 to 100
  // independent log-normal values): the gap must also be wide relative to the groups.
  if (*widest <= 2 * std::max(interquartile_range(low), interquartile_range(high))) return std::nullopt;
  return Modes{median(low), median(high), static_cast<double>(below) / static_cast<double>(n)};
}

Outliers far_outliers(std::span<const double> values) {
  const std::vector<double> sorted = in_order(values, "outliers");
  const double first_quartile = quantile(sorted, 0.25);
  const double third_quartile = quantile(sorted, 0.75);
  const double fence = third_quartile + 3 * (third_quartile - first_quartile);
  Outliers found;
  double sum = 0;
  double sum_beyond = 0;
  for (double value : sorted) {
    sum += value;
    if (value <= fence) continue;
    ++found.count;
    sum_beyond += value;
    found.largest = value;
  }
  if (sum > 0) found.share_of_sum = sum_beyond / sum;
  return found;
}

double spread_ratio(std::span<const double> values) {
  require_positive(values, "spread");
  if (values.size() < 3) return 1;
  const std::vector<double> sorted = in_order(values, "spread");
  return quantile(sorted, 0.9) / quantile(sorted, 0.1);
}

}  // namespace busbar
