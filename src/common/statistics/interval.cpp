#include "common/statistics/interval.h"

#include "common/statistics/distributions.h"
#include "common/statistics/random.h"

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

double interquartile_range(std::span<const double> sorted) { return quantile(sorted, 0.75) - quantile(sorted, 0.25); }

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

namespace {

constexpr int kDraws = 2000;

std::vector<double> logs(std::span<const double> times) {
  require_positive(times, "launch");
  std::vector<double> result;
  for (const double time : times) result.push_back(std::log(time));
  return result;
}

/// Variance of ln of a launch's median, from the interval that order statistics give it: a few epochs many times as
/// long barely move a median, while their variance would explain any difference between launches. With fewer than six
/// epochs there is no such interval: as for a mean.
double variance_of_median(std::span<const double> epochs) {
  constexpr double kHalfWidthZ = 1.96;  // of 95 %
  const std::vector<double> values = logs(epochs);
  const auto interval = exact_median_interval(values);
  if (!interval) return moments(values).variance / static_cast<double>(values.size());
  const double deviation = (interval->high - interval->low) / 2 / kHalfWidthZ;
  return deviation * deviation;
}

/// Launches first, then epochs of each drawn one: epochs of one launch share the cause of its speed.
double drawn_median(std::span<const std::vector<double>> epochs, Random& random) {
  std::vector<double> medians(epochs.size());
  std::vector<double> drawn;
  for (double& launch_median : medians) {
    const std::vector<double>& launch = epochs[random.below(epochs.size())];
    drawn.resize(launch.size());
    for (double& value : drawn) value = launch[random.below(launch.size())];
    launch_median = median(drawn);
  }
  return median(medians);
}

Interval cluster_bootstrap(std::span<const std::vector<double>> epochs, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> draws(kDraws);
  for (double& draw : draws) draw = drawn_median(epochs, random);
  std::sort(draws.begin(), draws.end());
  return {quantile(draws, 0.025), quantile(draws, 0.975)};
}

}  // namespace

Moments moments(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  Moments m{.mean = std::accumulate(values.begin(), values.end(), 0.0) / n};
  for (const double value : values) m.variance += (value - m.mean) * (value - m.mean) / std::max(n - 1, 1.0);
  return m;
}

LaunchesEstimate merge_launches(std::span<const std::vector<double>> epochs, std::optional<std::uint64_t> seed) {
  LaunchesEstimate estimate;
  std::vector<double> medians;
  double explained = 0;  // the part of the medians' variance due to the epochs'
  for (const std::vector<double>& launch : epochs) {
    if (launch.empty()) throw Error(ExitCode::invalid_use, "a launch without epochs cannot be merged");
    medians.push_back(median(launch));
    const double own = variance_of_median(launch) / static_cast<double>(epochs.size());
    estimate.variance_within += own * static_cast<double>(launch.size());
    explained += own;
  }
  estimate.median = median(medians);
  estimate.few = epochs.size() < kEnoughLaunches;
  estimate.variance_between = std::max(0.0, moments(logs(medians)).variance - explained);
  if (!estimate.few) {
    estimate.interval = exact_median_interval(medians);
  } else if (epochs.size() > 1 && seed) {
    estimate.interval = cluster_bootstrap(epochs, *seed);
  }
  return estimate;
}

}  // namespace busbar
