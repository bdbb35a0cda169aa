#pragma once

#include "common/measure/result.h"
#include "driver/compare/comparison.h"
#include "driver/history/history_run.h"

#include <string_view>

namespace busbar {

/// A benchmark's run without its rows, as the history keeps it.
HistoryRun history_of_run(const RunInfo& info);

/// Adds a finished row's measured halves. Cycles of -N become one cell with the median over them.
void add_row(HistoryRun& run, const Config& config, const Collective& collective, const Row& row);

/// Adds a comparison's cells, a variant each: `scope` is its label.
void add_comparison(HistoryRun& run, const Comparison& comparison);

/// What the exit code makes of a benchmark.
Outcome outcome_of_exit(int exit_code);

/// A result of accept, locate or doctor; `tool`: which.
HistoryRun history_of_accept(const AcceptResult& result, std::string_view tool);

/// Of an environment what is the same from launch to launch of one setting: the launcher's own variables, which name
/// the job and its directories, are left out, and so is all that reports do not show.
std::vector<std::string> steady_environment(const std::vector<std::string>& environment);

}  // namespace busbar
