#pragma once

#include "common/machine/probe.h"
#include "look/seen_process.h"

#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

/// Ports with their traffic, as totals.
std::vector<LookPort> read_ports(const Probe& probe);
/// The counters of error_counters.h, as totals.
std::vector<LookCounter> read_host_counters(const Probe& probe);
/// The control groups of these processes, as totals.
std::vector<LookGroup> read_groups(const Probe& probe, const std::vector<std::int64_t>& pids);

/// Totals of `later` as growth since the earlier look, and what GPUs did in that. Leaves out counters that are 0, and
/// groups without a limit in which nothing happened.
void host_growth(const HostLook& earlier, HostLook& later);

/// Lines of the kernel's log on trouble: errors of devices, links, memory, file systems, tasks that do not run. Throws
/// Error(not_possible) if it may not be read.
std::vector<std::string> kernel_troubles(const Probe& probe);

/// The file systems of this mount namespace that a server or a program serves, longest path first.
std::vector<std::string> served_mounts(const Probe& probe);

/// Whether a process waits for a file system: in state D, or in a function of FUSE, NFS, Lustre, ...
bool waits_for_files(const LookProcess& process);

/// A process that waited so in both looks, and the served mounts on which it has files; all of its mounts if it has
/// none there, because then a local file system blocks.
LookBlocked blocked_process(const Probe& probe, const LookProcess& process, const std::vector<std::string>& served);

/// Whether a path is on one of these mounts.
bool is_on(const std::vector<std::string>& mounts, std::string_view path);

}  // namespace busbar
