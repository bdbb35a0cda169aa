#pragma once

#include "common/record/history_run.h"

#include <string>

namespace busbar {

/// At the start of a run: creates the history or sees that it is one, and that there is room for the run. Throws
/// Error(bad_config) naming --history. Process 0 only.
void check_history(const std::string& path);

/// At its end: adds the run. What fails then is said on stderr in one line, and the run's result and exit code stand;
/// returns false.
bool add_to_history(const std::string& path, const HistoryRun& run);

}  // namespace busbar
