#pragma once

#include "common/base/error.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// Throws if a value is infinite or NaN: sorting NaN is undefined, and a statistic of infinity would look like one of
/// measured times. Nothing is dropped silently.
inline void require_finite(std::span<const double> values, const char* what) {
  for (double value : values) {
    if (!std::isfinite(value)) throw Error(ExitCode::internal, std::string(what) + " of a value that is not finite");
  }
}

/// As require_finite, for divisors and arguments of logarithms.
inline void require_positive(std::span<const double> values, const char* what) {
  for (double value : values) {
    if (!std::isfinite(value) || value <= 0) {
      throw Error(ExitCode::internal, std::string(what) + " of a value that is not above 0");
    }
  }
}

/// The values in rising order; throws as require_finite does.
inline std::vector<double> in_order(std::span<const double> values, const char* what) {
  require_finite(values, what);
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace busbar
