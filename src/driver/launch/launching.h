#pragma once

#include "common/base/error.h"
#include "common/processes/child.h"
#include "common/record/read_run.h"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The words of a command line as a shell would split it: spaces separate; '...' keeps everything, "..." everything but
/// \" and \\, a backslash the next letter. No variables, no patterns, no shell. Throws Error(bad_config) on an open
/// quote.
std::vector<std::string> split_command(std::string_view text);

/// The word as split_command and a shell read it back.
std::string quote_for_shell(std::string_view word);

/// Words as one line that split_command and a shell read back.
std::string join_for_shell(const std::vector<std::string>& command);

/// The command that `launch_template` makes of `command`: "{ranks}" becomes the number, a word "{cmd}" the command's
/// words, "{cmd}" inside a word the quoted command; without any "{cmd}" the command is appended. Other braces are an
/// error that names the choices, as is "{ranks}" if `nranks` is not known: Error(bad_config).
std::vector<std::string> launch_command(std::string_view launch_template, std::optional<int> nranks,
                                        const std::vector<std::string>& command);

/// "env NAME=VALUE ...", or nothing for no settings.
std::vector<std::string> environment_words(const EnvironmentSettings& environment);

/// The whole of the text as a number above 0; `otherwise` if it is none.
int positive_or(std::string_view text, int otherwise);

/// Names of one host as people write them: node3 and node3.cluster.org are the same.
bool names_same(std::string_view a, std::string_view b);

/// A host that a launch command names, and its slots.
struct LaunchHost {
  std::string name;
  int slots = 1;
};

/// The hosts that a launch command's words name: mpirun's --hostfile (-hostfile, --machinefile, -machinefile, -f) and
/// --host (-H, -hosts); empty if they name none (a batch system knows them). Reads the host file; throws
/// Error(bad_config) if that is named and cannot be read.
std::vector<LaunchHost> launch_hosts(const std::vector<std::string>& words);

/// Whether hosts can be left out of the command: it names them itself, or starts with srun.
bool can_exclude(const std::vector<std::string>& words);

/// The command without these hosts: a host file is replaced by `hostfile`, whose text is `hostfile_text` (to be written
/// by the caller if it is not empty); --host lists are shortened; srun gets --exclude. Pure but for reading the host
/// file.
struct ReducedLaunch {
  std::vector<std::string> words;
  std::string hostfile_text;
};
ReducedLaunch without_hosts(const std::vector<std::string>& words, const std::set<std::string>& excluded,
                            const std::string& hostfile);

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
  ExitCode code = ExitCode::good;  ///< if there is no run
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
