#pragma once

#include "common/record/history_run.h"
#include "common/statistics/paired.h"

#include <span>
#include <vector>

namespace busbar {

/// How one cell of a run stands to earlier runs.
struct CellAgainstHistory {
  enum class Verdict : std::uint8_t { wrong, slower, undecided, equivalent, faster };
  Cell cell;              ///< of the later run
  double before_s = 0;    ///< median over the earlier runs
  Ratio ratio;            ///< later time over earlier, with its 95 % interval
  double deviation = 0;   ///< of ln(time) from launch to launch
  bool assumed = false;   ///< too few runs tell it
  double adjusted_p = 1;  ///< of "not slower than 1 + delta", over all cells (Holm)
  Verdict verdict = Verdict::undecided;
};

/// "WRONG", "slower", "undecided", "equivalent", "faster".
const char* name(CellAgainstHistory::Verdict verdict);

/// A run held against one earlier run or several.
struct HistoryComparison {
  std::vector<CellAgainstHistory> cells;
  std::size_t only_before = 0;  ///< cells that the later run does not have
  std::size_t only_after = 0;
  std::size_t launches = 0;                 ///< most runs that told how launches differ
  Outcome outcome = Outcome::inconclusive;  ///< FAIL: a cell is slower beyond delta, or wrong; PASS: none can be
};

/// Holds `after` against `before` (one run, or several for their median). How much launches differ is estimated from
/// `before`, where it is several, and where these are fewer than 4 also from `others`: runs measured alike, neither
/// `after` nor of `before`. Only runs of one setup(), with the same hosts and environment, are compared for it, each
/// with the next in time, so that neither an upgrade nor a change for good counts as noise. With fewer than 4 such runs
/// a deviation of 10 % is assumed, which is what launches on a virtual machine show. A cell is slower where Holm's
/// adjusted one-sided p of "ratio <= 1 + delta" (Student's t) is at most 0.025, equivalent or faster where its 95 %
/// interval ends below 1 + delta. Pure.
HistoryComparison compare_with_history(const HistoryRun& after, std::span<const HistoryRun> before,
                                       std::span<const HistoryRun> others, double delta);

}  // namespace busbar
