#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace busbar {

// Hints about runs over weeks, in which neighbors resemble each other: the model of their noise is an AR(1) process of
// unknown correlation, at most 0.95. Each statistic is the logarithm of the likelihood with a change over that without
// one, both at the correlation that suits it best. Its p is calibrated for the worst case (`make experiments
// ARGS=statistics`), so that independent runs are found different less often than p says. Values further than 4 robust
// deviations from the line through all are moved to there. Series are of logarithms.

/// Median of the slopes between all pairs of points with different `x` (Theil 1950, Sen 1968); 0 if there is no such
/// pair. Throws on values that are not finite. Time grows with the square of their number.
double theil_sen_slope(std::span<const double> x, std::span<const double> y);

/// Two-sided p of "no trend"; 1 below 8 values. Above `most` values it uses the medians of so many blocks, because the
/// line through all takes quadratic time.
double trend_p(std::span<const double> series, std::size_t most = 400);

/// Where a series changed its level once, with at least two values on either side; null below 8 values, or if its p is
/// above `alpha`.
struct LevelChange {
  std::size_t first_after = 0;  ///< index of the first value on the new level
  double before = 0;            ///< medians
  double after = 0;
  double p = 1;
};
std::optional<LevelChange> level_change(std::span<const double> series, double alpha);

/// Two-sided p of "the last value is like the earlier ones"; 1 below 5 earlier values.
double last_value_p(std::span<const double> series);

/// (value - median) / (1.4826 MAD) of the earlier values: the distance in robust standard deviations. Null below 5
/// earlier values. `least_deviation`: the lower bound of the deviation.
std::optional<double> robust_distance(std::span<const double> earlier, double value, double least_deviation);

/// For each value of a series in time order, the number of its burst, 0, 1, ...: a burst begins with the first value at
/// least `span_s` after the beginning of the last one. Values of one burst saw the same minutes of the machine and are
/// one observation.
std::vector<std::size_t> bursts(std::span<const double> times_s, double span_s);

}  // namespace busbar
