#pragma once

#include "common/machine/probe.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The control groups of a process ("self" or its pid) for one controller, as folders from its own up to the topmost
/// visible one; any of them may have a limit. Empty if the controller is not mounted.
struct CgroupDirs {
  int version = 0;  ///< 1 or 2; 0: none
  std::vector<std::string> dirs;
};

/// `controller`: "memory", "cpu" or "cpuset".
CgroupDirs cgroup_dirs(std::string_view controller, const Probe& probe, const std::string& process = "self");

}  // namespace busbar
