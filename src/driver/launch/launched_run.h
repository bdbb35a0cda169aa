#pragma once

#include "common/base/error.h"
#include "common/processes/child.h"
#include "common/record/read_run.h"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A folder for the launches' result files, which process 0 of a launch writes and we read: in the current directory,
/// because hosts of a cluster share that rather than /tmp. Gone with this object.
class LaunchFolder {
 public:
  LaunchFolder();
  /// In a folder that --tmp names; empty: the system's.
  explicit LaunchFolder(const std::string& parent);
  LaunchFolder(const LaunchFolder&) = delete;
  LaunchFolder& operator=(const LaunchFolder&) = delete;
  ~LaunchFolder();

  std::string file(std::string_view name) const { return (path_ / name).string(); }

 private:
  bool make_in(const std::filesystem::path& parent);

  InterruptsHeld held_;  // an interrupt between two launches must not leave the folder behind
  std::filesystem::path path_;
};

inline constexpr const char* kNoResultsHere =
    "it ended well but left no results here: does its rank 0 run on another host? Start in a directory that all hosts "
    "share";

/// What a launch of a benchmark measured, or why it measured nothing.
struct LaunchedRun {
  std::optional<RunFile> run;
  std::string why_not;
  ExitCode code = ExitCode::good;  ///< where there is no run
};

/// Runs a launch command to its end, as run_child does.
ChildResult launch_child(const std::vector<std::string>& command, double timeout_s);

/// One of our own exit codes keeps its meaning, a launcher's is a failure of the backend.
ExitCode as_exit_code(int code);

/// Runs the command, which writes `results` (-J), and reads that as `name`. Wrong data is a result. Throws Interrupted.
LaunchedRun launch_run(const std::vector<std::string>& command, const std::string& results, const std::string& name,
                       double timeout_s);

/// What a failed program said last: its own error, or its last lines, on one line.
std::string last_words(std::string_view text);

}  // namespace busbar
