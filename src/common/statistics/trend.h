#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace busbar {

/// Median of the slopes between all pairs of points with different `x` (Theil 1950, Sen 1968); 0 where there is no such
/// pair. Throws on values that are not finite. Takes the square of their number.
double theil_sen_slope(std::span<const double> x, std::span<const double> y);

/// Where a series changed its level once (Pettitt 1979, rank based): nothing below 8 values, or where its p is above
/// `alpha`. The approximation of p is conservative below 0.5.
struct LevelChange {
  std::size_t first_after = 0;  ///< index of the first value on the new level
  double before = 0;            ///< medians
  double after = 0;
  double p = 1;
};
std::optional<LevelChange> level_change(std::span<const double> series, double alpha);

/// (value - median) / (1.4826 MAD) of the earlier values: how unlike them it is in robust standard deviations. Nothing
/// below 5 earlier values. `least_deviation`: what the deviation is taken for where it is less.
std::optional<double> robust_distance(std::span<const double> earlier, double value, double least_deviation);

}  // namespace busbar
