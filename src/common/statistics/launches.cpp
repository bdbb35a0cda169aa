#include "common/statistics/launches.h"

#include "common/statistics/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace busbar {

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
