#pragma once

#include "common/measure/result.h"

#include <optional>
#include <string>

namespace busbar {

/// The rank for which the others wait.
struct Straggler {
  int rank = 0;
  std::string host;
  double last_share = 0;  ///< of the samples, in which it arrived last
  double late_s = 0;      ///< median
};

/// The cell's straggler, named only where the data leave no doubt, because blaming a healthy node costs a day; at most
/// one by construction. Of n ranks, one must
///  - arrive last in more samples than halfway between chance (1/n) and always: 75 % of 2 ranks, 56 % of 8;
///  - and in more than chance allows for so few samples (20 at least): 1/n + 4 sqrt((1/n)(1 - 1/n) / samples);
///  - be late by more than three times the next latest rank (ranks that leave a barrier one by one: twice), and later
///    than that one by more than 1 us (what a barrier leaves), twice the error of the common clock, and 1 % of the
///    operation's median (else waiting costs nothing).
/// Nothing without per-rank arrivals, and where ranks share cores: there the same rank is last in up to 99 % of samples
/// because the scheduler runs it last.
std::optional<Straggler> find_straggler(const CellStats& cell);

}  // namespace busbar
