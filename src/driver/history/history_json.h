#pragma once

#include "common/record/history_run.h"
#include "driver/history/history_compare.h"
#include "driver/history/history_trend.h"

#include <span>
#include <string>

namespace busbar {

// What `busbar history -J` writes: times in microseconds, bandwidths in 1e9 B/s, as the benchmarks' JSON has them.

std::string runs_json(std::span<const HistoryRun> runs);
std::string trends_json(std::span<const CellTrend> trends);
std::string history_comparison_json(const HistoryComparison& comparison, const HistoryRun& after,
                                    std::span<const HistoryRun> before, double delta);

}  // namespace busbar
