#pragma once

#include "common/statistics/interval.h"

#include <optional>
#include <span>

namespace busbar {

/// What a cell's epochs say about its median over the next minute of the same launch.
struct MedianPrediction {
  double value = 0;                  ///< the median of the epochs' medians
  std::optional<Interval> interval;  ///< 95 %, of the next minute's median; null below 6 epochs
  double span_s = 0;                 ///< covered by the epochs
  double correlation_time_s = 0;     ///< of the drift (to 1/e), estimated; 0 below 6 epochs and for constants
  /// Half width over the value for a correlation time of a sixth of the span or more, the widest that the epochs do not
  /// exclude; 0 if they exclude all.
  double slow_half_width = 0;

  /// (high - low) / (2 value), compared with --rel-ci; infinity without an interval.
  double relative_half_width() const;

  /// Whether the span seems to show the drift's behavior: six correlation times, counting the estimate twice, because
  /// it comes from few correlation times itself, and quiet moments make it short.
  bool spans_correlation_time() const { return interval && span_s >= 12 * correlation_time_s; }

  /// Whether a half width of `rel` may be claimed: a drift with less than six correlation times in the span is
  /// excluded, or so weak that the interval would be as narrow with it.
  bool allows(double rel) const { return spans_correlation_time() && slow_half_width <= rel; }
};

/// `medians_s` of the epochs, and the end of each, in rising order. Model: the normal scores of the medians wander (an
/// Ornstein-Uhlenbeck process: one correlation time) under white noise; correlation time, shares and scale are
/// integrated out on a grid, so that an unknown correlation time widens the interval. Ranks, because a spike of any
/// height counts once. The last bits depend on the CPU's libm: agree on anything decided by them.
MedianPrediction predict_median(std::span<const double> medians_s, std::span<const double> times_s);

}  // namespace busbar
