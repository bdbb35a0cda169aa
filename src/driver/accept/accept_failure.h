#pragma once

#include "common/processes/child.h"
#include "common/record/accept_result.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Whom a launcher's (or our own) last words blame, with PROCESS_DEAD, HOST_UNREACHABLE or ERROR and the line; empty
/// where they name nobody. From a failed launch's stderr: Open MPI's "process rank 4 with PID 123 on node node2 exited
/// on signal 9", "lost communication with a remote daemon ... on node node2", srun's "error: node2: task 4: Killed",
/// our "error: rank 3 on node1, ...". `hosts`: those of the launch, as far as known; a host named in a complaint about
/// a daemon, a connection or a host name is blamed where it is the only one. Pure.
StageFailure blame_by_launcher(std::string_view text, const std::vector<std::string>& hosts);

/// What is known of a launch beside how it ended.
struct FailedLaunch {
  double timeout_s = 0;
  std::filesystem::file_time_type started;  ///< hang reports from then on are its own
  std::vector<std::string> hosts;           ///< of the launch, as far as known
};

/// Why a launch did not end well and who is to blame: from its hang report (hang-JOBID.json here or in the temporary
/// folder; one that its stderr names, or of a job on its hosts only), else from the launcher's last words. The stage is
/// left to the caller.
StageFailure explain_failure(const ChildResult& child, const FailedLaunch& launch);

}  // namespace busbar
