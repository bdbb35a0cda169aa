#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace busbar {

// Hints about runs over weeks, of which neighbours resemble each other: their noise is taken for an AR(1) process whose
// correlation is not known, at most 0.95. Each statistic is the logarithm of the likelihood with a change
// over that without one, both at the correlation that suits it best; its p is calibrated where that hurts most
// (`make experiments ARGS=statistics`), so that independent runs are found unlike less often than p says. Values
// further than 4 robust deviations from the line through all are drawn to there. Series are of logarithms.

/// Median of the slopes between all pairs of points with different `x` (Theil 1950, Sen 1968); 0 where there is no such
/// pair. Throws on values that are not finite. Takes the square of their number.
double theil_sen_slope(std::span<const double> x, std::span<const double> y);

/// Two-sided p of "no trend"; 1 below 8 values. Of more than `most` the medians of so many blocks are looked at: the
/// line through all of them takes the square.
double trend_p(std::span<const double> series, std::size_t most = 400);

/// Where a series changed its level once, with two values at least on either side: nothing below 8 values, or where its
/// p is above `alpha`.
struct LevelChange {
  std::size_t first_after = 0;  ///< index of the first value on the new level
  double before = 0;            ///< medians
  double after = 0;
  double p = 1;
};
std::optional<LevelChange> level_change(std::span<const double> series, double alpha);

/// Two-sided p of "the last value is like the earlier ones"; 1 below 5 earlier values.
double last_value_p(std::span<const double> series);

/// (value - median) / (1.4826 MAD) of the earlier values: how unlike them it is in robust standard deviations. Nothing
/// below 5 earlier values. `least_deviation`: what the deviation is taken for where it is less.
std::optional<double> robust_distance(std::span<const double> earlier, double value, double least_deviation);

/// Per value of a series in time order, the number of its burst, 0, 1, ...: one begins with the first value that is
/// `span_s` or more after the beginning of the former. Values of one burst saw the same minutes of the machine and are
/// one observation.
std::vector<std::size_t> bursts(std::span<const double> times_s, double span_s);

}  // namespace busbar
