#pragma once

#include "common/measure/result.h"
#include "common/record/history_run.h"

#include <string>

namespace busbar {

/// A benchmark's run without its rows, in the history's form.
HistoryRun history_of_run(const RunInfo& info);

/// Adds a finished row's measured halves. Cycles of -N become one cell with the median over them.
void add_row(HistoryRun& run, const Config& config, const Collective& collective, const Row& row);

// A benchmark has no database code: `busbar history init` and `add` do it, found next to the benchmark or in PATH.
// Process 0 only, on the main thread.

/// At the start of a run: creates the history or checks that it is one, and that there is room for the run. Throws
/// Error naming --history.
void init_history_by_busbar(const std::string& path);

/// At its end: adds the run. Returns false if that fails, after a line on stderr; the run's result stays.
bool add_to_history_by_busbar(const std::string& path, const HistoryRun& run);

}  // namespace busbar
