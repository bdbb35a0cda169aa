#pragma once

#include "common/record/history_run.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

class Database;

/// Results of many runs in one SQLite file. Several runs may add to it at once, on a network file system too (a
/// rollback journal and locks, no write-ahead log); a run that is killed leaves it as it was. What fails throws
/// Error(bad_config) naming the file.
class History {
 public:
  enum class Mode { add, read };

  /// Opens the file; with Mode::add a missing or empty one becomes a history. Another program's database, a file that
  /// is none and a history of a newer version are errors and stay as they are. `patience_s`: how long to wait for
  /// others.
  History(const std::string& path, Mode mode, double patience_s = 30);
  ~History();

  /// Writes and removes as much as a run may need, so that a full disk shows now.
  void check_room();

  /// Adds the run in one transaction; its number.
  std::int64_t add(const HistoryRun& run);

  /// Every run, oldest first, without cells and criteria.
  std::vector<HistoryRun> runs();

  /// Reads the cells of these runs, without their epochs, the last run first; of one collective only if one is
  /// named. Calls `visit` for each run, which may drop what it no longer needs. Writers wait meanwhile.
  void read_cells(std::span<HistoryRun> runs, std::string_view collective = {},
                  const std::function<void(HistoryRun&)>& visit = {});
  void read_criteria(HistoryRun& run);

 private:
  std::shared_ptr<Database> database_;  ///< complete in a build with SQLite alone
};

/// At the start of a run: creates the history or sees that it is one, and that there is room for the run. Throws
/// Error(bad_config) naming --history. Process 0 only.
void check_history(const std::string& path);

/// At its end: adds the run. A failure is one line on stderr; the run's result and exit code stand; returns false.
bool add_to_history(const std::string& path, const HistoryRun& run);

/// Of a history that this program writes. Raised with every change that an older program must not touch.
inline constexpr int kHistoryVersion = 1;

}  // namespace busbar
