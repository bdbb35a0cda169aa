#include "common/statistics/series.h"

#include "common/statistics/distributions.h"
#include "common/statistics/finite.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace busbar {
namespace {

/// Counts of values by rank, asked for sums from below (a Fenwick tree): a million samples in a second, not in a day.
class RankCounts {
 public:
  explicit RankCounts(std::size_t ranks) : tree_(ranks + 1) {}

  void add(std::size_t rank) {
    for (++rank; rank < tree_.size(); rank += rank & (~rank + 1)) ++tree_[rank];
  }

  /// How many are below `rank`.
  std::int64_t below(std::size_t rank) const {
    std::int64_t sum = 0;
    for (; rank > 0; rank &= rank - 1) sum += tree_[rank];
    return sum;
  }

 private:
  std::vector<std::int64_t> tree_;
};

/// Pairs (i < j) with x_i < x_j less those with x_i > x_j; `distinct` in rising order.
double kendall_sum(std::span<const double> series, const std::vector<double>& distinct) {
  RankCounts counts(distinct.size());
  std::int64_t sum = 0;
  std::int64_t seen = 0;
  for (double value : series) {
    const auto rank =
        static_cast<std::size_t>(std::lower_bound(distinct.begin(), distinct.end(), value) - distinct.begin());
    sum += counts.below(rank) - (seen - counts.below(rank + 1));
    counts.add(rank);
    ++seen;
  }
  return static_cast<double>(sum);
}

double interquartile_range(std::span<const double> sorted) { return quantile(sorted, 0.75) - quantile(sorted, 0.25); }

}  // namespace

double mann_kendall_p(std::span<const double> series) {
  const std::vector<double> sorted = in_order(series, "trend");
  if (sorted.size() < 8) return 1;
  const auto n = static_cast<double>(series.size());
  double variance = n * (n - 1) * (2 * n + 5);
  std::vector<double> distinct;
  for (auto at = sorted.begin(); at != sorted.end();) {
    const auto next = std::upper_bound(at, sorted.end(), *at);
    const auto ties = static_cast<double>(next - at);
    variance -= ties * (ties - 1) * (2 * ties + 5);
    distinct.push_back(*at);
    at = next;
  }
  variance /= 18;
  const double sum = std::fabs(kendall_sum(series, distinct));
  if (sum < 1 || variance <= 0) return 1;
  return normal_two_sided_p((sum - 1) / std::sqrt(variance));
}

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
  // The widest of many gaps is often 5 times the median one with no modes at all (in every fifth series of 20 to 100
  // independent log-normal values): the gap must also be wide beside the groups.
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
