#include "driver/history/add_to_history.h"

#include "common/base/error.h"
#include "driver/history/history.h"

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
    // Not fmt::print, which throws where stderr is a file on the same full disk.
    std::fputs(
        fmt::format("busbar: warning: --history {}; the run is not in the history, its result stands\n", e.what())
            .c_str(),
        stderr);
    return false;
  }
}

}  // namespace busbar
