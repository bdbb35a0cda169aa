#pragma once

#include "common/statistics/interval.h"

#include <optional>
#include <span>

namespace busbar {

/// What the epochs of a cell tell of its median over the next minute of the same launch.
struct MedianPrediction {
  double value = 0;                  ///< the median of the epochs' medians
  std::optional<Interval> interval;  ///< 95 %, of the next minute's median; nothing below 6 epochs
  double span_s = 0;                 ///< that the epochs cover
  double correlation_time_s = 0;     ///< of the drift (to 1/e), estimated; 0 below 6 epochs and for constants
  /// Half width over the value that a correlation time of a sixth of the span or more gives, the widest of those that
  /// the epochs do not exclude; 0 where they exclude them all.
  double slow_half_width = 0;

  /// (high - low) / (2 value): what --rel-ci bounds; infinity without an interval.
  double relative_half_width() const;

  /// Whether the span seems to show what the drift does: six correlation times, with the estimate taken twice, because
  /// it is from few correlation times itself, and quiet moments make it short.
  bool spans_correlation_time() const { return interval && span_s >= 12 * correlation_time_s; }

  /// Whether a half width of `rel` may be claimed: a drift of which the span is less than six correlation times is
  /// excluded, or it is so weak that the interval would be as narrow with it.
  bool allows(double rel) const { return spans_correlation_time() && slow_half_width <= rel; }
};

/// `medians_s` of the epochs and when each ended, in rising order. Model: the normal scores of the medians wander (an
/// Ornstein-Uhlenbeck process: one correlation time) under white noise; correlation time, shares and scale are
/// integrated out on a grid, so that an unknown correlation time widens the interval. Ranks, because a spike of any
/// height counts once. The last bits depend on the CPU's libm: what is decided by them must be agreed on.
MedianPrediction predict_median(std::span<const double> medians_s, std::span<const double> times_s);

}  // namespace busbar
