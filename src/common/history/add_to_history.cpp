#include "common/history/add_to_history.h"

#include "common/base/error.h"
#include "common/history/history.h"

#include <fmt/format.h>

#include <cstdio>

namespace busbar {

void check_history(const std::string& path) {
  try {
    History(path, History::Mode::add).check_room();
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("--history {}", e.what()));
  }
}

// The file is not kept open in between: a run takes hours, and locks of a network file system do not last so long.
bool add_to_history(const std::string& path, const HistoryRun& run) {
  try {
    History(path, History::Mode::add).add(run);
    return true;
  } catch (const Error& e) {
    fmt::print(stderr, "busbar: warning: --history {}; the run is not in the history, its result stands\n", e.what());
    return false;
  }
}

}  // namespace busbar
