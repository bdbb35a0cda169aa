#pragma once

#include "common/record/history_run.h"
#include "driver/history/history_judge.h"

#include <span>
#include <string>

namespace busbar {

// What `busbar history` prints, for people; stdout.

/// A line per run, oldest first.
std::string list_text(std::span<const HistoryRun> runs);

/// One run with its cells and criteria.
std::string show_text(const HistoryRun& run);

/// A table per setup, a line per cell, and what stands out. `ascii`: no block characters.
std::string trend_text(std::span<const CellTrend> trends, std::span<const HistoryRun> runs, bool ascii);

/// A line per cell and the verdict. `before`: as in compare_with_history().
std::string compare_text(const HistoryComparison& comparison, const HistoryRun& after,
                         std::span<const HistoryRun> before, double delta);

// What `busbar history -J` writes: times in microseconds, bandwidths in 1e9 B/s, as the benchmarks' JSON has them.

std::string runs_json(std::span<const HistoryRun> runs);
std::string trends_json(std::span<const CellTrend> trends);
std::string history_comparison_json(const HistoryComparison& comparison, const HistoryRun& after,
                                    std::span<const HistoryRun> before, double delta);

}  // namespace busbar
