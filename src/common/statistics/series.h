#pragma once

#include "common/statistics/interval.h"

#include <cstddef>
#include <optional>
#include <span>

namespace busbar {

/// Two groups of values far apart: the largest gap in the central 80 % is above 5 times the median gap and twice the
/// interquartile range of either side, and each side holds at least a quarter. Null below 8 values.
struct Modes {
  double low = 0;   ///< median of the lower group
  double high = 0;  ///< median of the upper group
  double share_low = 0;
};
std::optional<Modes> two_modes(std::span<const double> values);

/// Values above Q3 + 3 (Q3 - Q1), nearest-rank quartiles: reported, never removed.
struct Outliers {
  std::size_t count = 0;
  double share_of_sum = 0;  ///< their part of the sum of all values
  double largest = 0;       ///< 0 for none
};
Outliers far_outliers(std::span<const double> values);

/// p90 / p10; 1 below 3 values. Throws on a value that is not above 0.
double spread_ratio(std::span<const double> values);

}  // namespace busbar
