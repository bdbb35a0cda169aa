#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Whom a launcher's (or our own) last words blame; empty where they name nobody.
struct LauncherBlame {
  std::string host;
  int rank = -1;
  std::string text;  ///< the line
  std::string kind;  ///< "PROCESS_DEAD", "HOST_UNREACHABLE", "ERROR"
};

/// From a failed launch's stderr: Open MPI's "process rank 4 with PID 123 on node node2 exited on signal 9", "lost
/// communication with a remote daemon ... on node node2", srun's "error: node2: task 4: Killed", our "error: rank 3 on
/// node1, ...". `hosts`: those of the launch, as far as known; a host named in a complaint about a daemon, a connection
/// or a host name is blamed where it is the only one. Pure.
LauncherBlame blame_by_launcher(std::string_view text, const std::vector<std::string>& hosts);

}  // namespace busbar
