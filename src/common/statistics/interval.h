#pragma once

#include "common/base/error.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

struct Interval {
  double low = 0;
  double high = 0;
  bool operator==(const Interval&) const = default;
};

/// The middle value, or the mean of the two middle ones; 0 for none.
double median(std::span<const double> values);

/// Nearest-rank quantile of values in rising order: the ceil(q n)-th; 0 for none.
double quantile(std::span<const double> sorted, double q);

/// Confidence interval of the median of independent values by order statistics (binomial, exact). Null if no order
/// statistic reaches the confidence: below 6 values at 95 %.
std::optional<Interval> exact_median_interval(std::span<const double> values, double confidence = 0.95);

/// Confidence interval of the quantile `q` (0 < q < 1) of independent values in rising order, exact; null if there are
/// too few of them (p99 needs 368 at 95 %).
std::optional<Interval> quantile_interval(std::span<const double> sorted, double q, double confidence = 0.95);

/// The same for values that came in epochs: a whole epoch may be slow, and so may its neighbors. `ends`: the ends of
/// the epochs in `in_order`, rising, the last one its size; `sorted`: the same values. The ranks are those of as many
/// independent values as would carry the same information (effective size and its t: Korn & Graubard, Survey
/// Methodology 24 (1998) 193): from how the share at or below the quantile varies between epochs, and between 20 blocks
/// of them. Null if epochs, reduced by the likeness of neighbors, are too few for the quantile: p99 needs 368 of them.
std::optional<Interval> quantile_interval(std::span<const float> in_order, std::span<const std::size_t> ends,
                                          std::span<const double> sorted, double q, double confidence = 0.95);

/// Lag-1 autocorrelation of "at most the median" of a series in time order, clipped to [0, 0.9]: uses the indicator,
/// because a spike of any height counts once. 0 if all are equal.
double lag1_about_median(std::span<const double> series);

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

inline constexpr std::size_t kEnoughLaunches = 6;  ///< fewer have no order statistics at 95 %

struct Moments {
  double mean = 0;
  double variance = 0;  ///< with n - 1; 0 for one value
};
/// Of at least one value.
Moments moments(std::span<const double> values);

/// One cell over several launches of the same benchmark. From 6 launches on, the interval is that of their medians by
/// order statistics. With 2 to 5 there is none at 95 %: only a cluster bootstrap (launches, then epochs; 2000 draws),
/// which is too narrow and must be labeled `few`.
struct LaunchesEstimate {
  double median = 0;                 ///< of the launches' medians
  std::optional<Interval> interval;  ///< null for one launch, and for few without a seed
  bool few = false;                  ///< fewer than 6 launches
  double variance_between = 0;       ///< of ln of the launches' medians, less the epochs' part; at least 0
  double variance_within = 0;        ///< of ln of one epoch's median, mean over launches
};

/// `epochs`: each launch's epoch medians in time order; `seed`: of the bootstrap, if few shall have one. Throws if a
/// launch has none, or a time that is not above 0.
LaunchesEstimate merge_launches(std::span<const std::vector<double>> epochs, std::optional<std::uint64_t> seed = {});

}  // namespace busbar
