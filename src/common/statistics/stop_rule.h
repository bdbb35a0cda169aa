#pragma once

#include "common/base/enum_words.h"

#include <cstdint>

namespace busbar {

/// Why the statistical mode stopped measuring a cell (one placement of one row).
enum class StopReason : std::uint8_t {
  ci,     ///< the interval is as narrow as --rel-ci requires
  time,   ///< --cell-time or --max-time ended first
  noisy,  ///< --epochs were used up, or more time within the limits would not have helped
};

constexpr EnumWords<3> words_of(StopReason) { return {"ci", "time", "noisy"}; }
static_assert(name(StopReason::noisy) == "noisy");

/// The least time span of a cell [s]: over shorter ones, a drifting machine looks steady (docs/evidence/statistics.md).
inline constexpr double kLeastSpan = 2;

/// When a cell has been measured enough: every process decides alike, because all inputs are agreed on.
struct StopRule {
  double rel = 0.01;     ///< half width of the interval over the median at which a cell is done
  int min_epochs = 10;   ///< no verdict before
  int max_epochs = 400;  ///< no epoch after
};

/// The state of a cell; one for each.
struct StopState {
  int in_a_row = 0;  ///< tests passed, up to the last one
};

/// One test after `epochs` epochs, with predict_median(...).relative_half_width(): true if this one and the last one
/// passed. One alone is often luck: an interval wanders while it narrows, and is tested again and again.
inline bool precise_enough(const StopRule& rule, StopState& state, int epochs, double half_width) {
  state.in_a_row = epochs >= rule.min_epochs && half_width <= rule.rel ? state.in_a_row + 1 : 0;
  return state.in_a_row >= 2;
}

/// Epochs needed for the target if widths fall with the root of their number; infinity without an interval.
inline double projected_epochs(int epochs, double half_width, double target) {
  if (half_width == 0) return epochs;
  return epochs * (half_width / target) * (half_width / target);
}

/// True if the cell will not reach the target within max_epochs: it is noisy, and other cells make better use of the
/// time. False before 30 epochs: intervals from few order statistics are wide by construction (at 10 epochs the
/// projection is 4 times too long, at 30 half as long again, hence the slack) and wander.
inline bool hopeless(const StopRule& rule, int epochs, double half_width) {
  if (epochs < rule.min_epochs || half_width <= rule.rel) return false;
  if (epochs >= rule.max_epochs) return true;
  return epochs >= 30 && !(projected_epochs(epochs, half_width, rule.rel) <= 1.5 * rule.max_epochs);
}

}  // namespace busbar
