#include "driver/accept/judge_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace busbar {
namespace {

bool worse_than(double value, double bound, bool larger_is_better) {
  return larger_is_better ? value < bound : value > bound;
}

BoundVerdict without_interval(const Estimate& e, const Bound& bound, bool larger_is_better) {
  constexpr const char* kWhy = "measured too briefly for an interval";
  if (bound.fail && worse_than(e.value, larger_is_better ? *bound.fail / 2 : *bound.fail * 2, larger_is_better)) {
    return {Outcome::fail, fmt::format("{}, but worse than the bound by more than a factor of two", kWhy)};
  }
  return {Outcome::inconclusive, kWhy};
}

/// Values above 0; a file may hold others.
bool all_finite(std::span<const double> values) {
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v) && v > 0; });
}

Estimate nothing() { return {.value = std::nan(""), .interval = {}, .of_few = true}; }

}  // namespace

BoundVerdict judge_bound(const Estimate& e, const Bound& bound, bool larger_is_better) {
  // A comparison with NaN is false, and would pass.
  if (!std::isfinite(e.value)) return {Outcome::inconclusive, "no number was measured"};
  if (!e.interval || !std::isfinite(e.interval->low) || !std::isfinite(e.interval->high)) {
    return without_interval(e, bound, larger_is_better);
  }
  const double best = larger_is_better ? e.interval->high : e.interval->low;
  const double worst = larger_is_better ? e.interval->low : e.interval->high;
  if (bound.fail && worse_than(worst, *bound.fail, larger_is_better)) {
    if (worse_than(best, *bound.fail, larger_is_better)) return {Outcome::fail, {}};
    const bool value_worse = worse_than(e.value, *bound.fail, larger_is_better);
    if (!e.precise && (value_worse || !e.of_few)) {
      return {Outcome::inconclusive, "the interval contains the bound: too noisy to tell"};
    }
    if (value_worse) return {Outcome::fail, {}};
  }
  if (bound.warn && worse_than(worst, *bound.warn, larger_is_better)) {
    if (worse_than(best, *bound.warn, larger_is_better)) return {Outcome::warn, {}};
    if (!e.precise && !e.of_few) return {Outcome::warn, "the interval contains the bound"};
    if (worse_than(e.value, *bound.warn, larger_is_better)) return {Outcome::warn, {}};
  }
  return {};
}

Estimate robust_spread(std::span<const double> values) {
  if (!all_finite(values)) return nothing();
  const double middle = median(values);
  std::vector<double> deviations;
  for (double value : values) deviations.push_back(std::abs(value - middle));
  const double spread = 1.4826 * median(deviations) / middle;
  if (values.size() < 8) return {.value = spread, .interval = {}, .of_few = true};
  const double error = 2 * 1.166 / std::sqrt(static_cast<double>(values.size()));
  const Interval interval{spread * std::max(0.0, 1 - error), spread * (1 + error)};
  return {.value = spread, .interval = interval, .of_few = true};
}

Estimate dip_share(std::span<const double> values, double usual) {
  if (!all_finite(values) || !std::isfinite(usual)) return nothing();
  const double limit = 1.5 * usual;
  const auto n = static_cast<double>(values.size());
  const double share =
      static_cast<double>(std::count_if(values.begin(), values.end(), [&](double v) { return v > limit; })) / n;
  // Wilson (1927), 95 %.
  const double z2 = 1.96 * 1.96;
  const double middle = (share + z2 / (2 * n)) / (1 + z2 / n);
  const double half = std::sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n);
  const Interval interval{share == 0 ? 0 : std::max(0.0, middle - half), std::min(1.0, middle + half)};
  return {.value = share, .interval = interval, .of_few = true};
}

}  // namespace busbar
