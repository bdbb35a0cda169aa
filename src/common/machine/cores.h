#pragma once

#include <filesystem>
#include <set>
#include <string_view>

namespace busbar {

/// Cores (hardware threads) that all of a job's ranks on this host may use together, at least 1. A launcher may bind
/// each rank to one core, so a rank's own mask does not tell; the mask of the launcher's process on this host (the
/// nearest ancestor of a known name) does, as `taskset mpirun` restricts it too. Where no such ancestor is visible (a
/// container's own PID namespace), all online cores. Cut to the control group's cpuset and CPU quota. `root` is where
/// /proc and /sys are looked for.
int job_cores(const std::filesystem::path& root = "/");

/// A kernel's CPU list ("0-3,8"); empty for text that is none.
std::set<int> parse_cpu_list(std::string_view text);

}  // namespace busbar
