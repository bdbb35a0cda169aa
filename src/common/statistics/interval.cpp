#include "common/statistics/interval.h"

#include "common/statistics/distributions.h"

#include <limits>
#include <numeric>

namespace busbar {

namespace {

/// Ranks of order statistics, from 1.
struct Ranks {
  std::size_t low = 0;
  std::size_t high = 0;
};

/// The largest k of 0 .. n with P(Bin(n, q) <= k - 1) <= alpha / 2.
std::size_t tail_rank(std::size_t n, double q, double alpha) {
  std::size_t good = 0;  // P(... <= -1) = 0
  std::size_t bad = n + 1;
  while (bad - good > 1) {
    const std::size_t middle = good + (bad - good) / 2;
    (binomial_cdf(n, q, static_cast<std::ptrdiff_t>(middle) - 1) <= alpha / 2 ? good : bad) = middle;
  }
  return good;
}

std::optional<Ranks> exact_ranks(std::size_t n, double q, double confidence) {
  // P(Bin(n, q) >= u) = P(Bin(n, 1-q) <= n-u): the upper rank is the lower one counted from the other end.
  const std::size_t low = tail_rank(n, q, 1 - confidence);
  const std::size_t from_end = tail_rank(n, 1 - q, 1 - confidence);
  if (low == 0 || from_end == 0) return std::nullopt;
  return Ranks{low, n + 1 - from_end};
}

/// Variance of the share of values at or below `value` in `nblocks` blocks of epochs, over that of independent values.
double design_effect(std::span<const float> in_order, std::span<const std::size_t> ends, double value,
                     std::size_t nblocks) {
  const auto n = static_cast<double>(in_order.size());
  const auto is_below = [&](float v) { return v <= value; };
  const double share = static_cast<double>(std::count_if(in_order.begin(), in_order.end(), is_below)) / n;
  double squares = 0;
  std::size_t begin = 0;
  for (std::size_t b = 1; b <= nblocks; ++b) {
    const std::size_t end = ends[b * ends.size() / nblocks - 1];
    const auto block = in_order.subspan(begin, end - begin);
    const double more = static_cast<double>(std::count_if(block.begin(), block.end(), is_below)) -
                        share * static_cast<double>(block.size());
    squares += more * more;
    begin = end;
  }
  const auto blocks = static_cast<double>(nblocks);
  return squares / n * blocks / (blocks - 1) / (share * (1 - share));
}

}  // namespace

double median(std::span<const double> values) {
  require_finite(values, "median");
  if (values.empty()) return 0;
  std::vector<double> copy(values.begin(), values.end());
  const auto half = copy.begin() + static_cast<std::ptrdiff_t>(copy.size() / 2);
  std::nth_element(copy.begin(), half, copy.end());
  return copy.size() % 2 == 1 ? *half : std::midpoint(*std::max_element(copy.begin(), half), *half);
}

double quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return 0;
  // The product may be an ulp or two above the exact whole number: 0.07 * 100 is not 7.
  const auto n = static_cast<double>(sorted.size());
  const double rank = std::ceil(q * n * (1 - 4 * std::numeric_limits<double>::epsilon()));
  return sorted[static_cast<std::size_t>(std::clamp(rank, 1.0, n)) - 1];
}

std::optional<Interval> exact_median_interval(std::span<const double> values, double confidence) {
  const std::vector<double> sorted = in_order(values, "median");
  return quantile_interval(sorted, 0.5, confidence);
}

std::optional<Interval> quantile_interval(std::span<const double> sorted, double q, double confidence) {
  const auto ranks = exact_ranks(sorted.size(), q, confidence);
  if (!ranks) return std::nullopt;
  return Interval{sorted[ranks->low - 1], sorted[ranks->high - 1]};
}

std::optional<Interval> quantile_interval(std::span<const float> in_order, std::span<const std::size_t> ends,
                                          std::span<const double> sorted, double q, double confidence) {
  constexpr std::size_t kBlocks = 20;
  const std::size_t n = sorted.size(), epochs = ends.size(), nblocks = std::min(kBlocks, epochs / 2);
  if (nblocks < 2) return std::nullopt;
  if (sorted.front() == sorted.back()) return quantile_interval(sorted, q, confidence);
  // Ties with the largest would leave nothing above it.
  const double value = std::min(quantile(sorted, q), std::nextafter(sorted.back(), sorted.front()));
  const double by_epochs = design_effect(in_order, ends, value, epochs);
  const double by_blocks = design_effect(in_order, ends, value, nblocks);
  const double alike = by_epochs > 0 ? std::max(1.0, by_blocks / by_epochs) : 1;
  if (!exact_ranks(static_cast<std::size_t>(static_cast<double>(epochs) / alike), q, confidence)) return std::nullopt;
  const double p = (1 + confidence) / 2, z = normal_quantile(p);
  const auto widened = [&](double effect, std::size_t parts) {
    const double t = student_t_quantile(p, static_cast<int>(parts) - 1);
    return effect * (t / z) * (t / z);
  };
  const double effect = std::max({1.0, widened(by_epochs, epochs), widened(by_blocks, nblocks)});
  const auto effective = static_cast<std::size_t>(static_cast<double>(n) / effect);
  const auto ranks = exact_ranks(effective, q, confidence);
  if (!ranks) return std::nullopt;
  const double each = static_cast<double>(n) / static_cast<double>(effective);
  const auto low = static_cast<std::size_t>(std::floor(static_cast<double>(ranks->low) * each));
  const auto high = static_cast<std::size_t>(std::ceil(static_cast<double>(ranks->high) * each));
  return Interval{sorted[std::max<std::size_t>(low, 1) - 1], sorted[std::min(high, n) - 1]};
}

double lag1_about_median(std::span<const double> series) {
  const double center = median(series);
  double share = 0;
  for (double value : series) share += value <= center ? 1 : 0;
  share /= static_cast<double>(std::max<std::size_t>(series.size(), 1));
  double squares = 0;
  double products = 0;
  double former = 0;
  for (double value : series) {
    const double deviation = (value <= center ? 1 : 0) - share;
    squares += deviation * deviation;
    products += deviation * former;
    former = deviation;
  }
  return squares > 0 ? std::clamp(products / squares, 0.0, 0.9) : 0;
}

}  // namespace busbar
