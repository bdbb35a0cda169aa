#pragma once

#include "common/machine/probe.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Cores (hardware threads) that all of a job's ranks on this host may use together, at least 1. A launcher may bind
/// each rank to one core, so a rank's own mask says nothing. The mask of the launcher's process on this host (the
/// nearest ancestor of a known name) does, because `taskset mpirun` restricts it too. If no such ancestor is visible (a
/// container's own PID namespace), all online cores. Cut to the control group's cpuset and CPU quota.
int job_cores(const Probe& probe = {});

/// A kernel's CPU list ("0-3,8"); empty if the text is none.
std::set<int> parse_cpu_list(std::string_view text);

/// What a host's kernel has counted since it started, over all CPUs [s]. The counters move in steps of 10 ms, so only
/// differences over a second or more mean anything.
struct HostCpu {
  int cpus = 0;             ///< online
  double idle_s = 0;        ///< nothing was ready to run
  double steal_s = 0;       ///< ready to run, but the hypervisor ran something else
  double interrupts_s = 0;  ///< interrupts, which are not a process's time
};

/// From /proc/stat; nullopt if it cannot be read.
std::optional<HostCpu> host_cpu(const Probe& probe = {});

/// Time for which CPUs were throttled although there was work [s], since the machine or the container started; 0 if the
/// files are missing.
struct Throttling {
  double container_s = 0;  ///< by a CPU quota, over all CPUs: the worst of the control groups above this process
  double heat_s = 0;       ///< by heat: the core or package throttled longest (Intel only)
};
Throttling throttling(const Probe& probe = {});

/// CPU time of this process, all threads, to the microsecond [s], and how often a thread lost its core although it had
/// work.
struct OwnCpu {
  double used_s = 0;
  std::int64_t involuntary_switches = 0;
};
OwnCpu own_cpu();

/// Memory that this host, or this process's control group on it, can still give, to all of its processes together.
struct HostMemory {
  std::uint64_t free_bytes = 0;
  std::string source;  ///< the deciding source, for the arithmetic: "MemAvailable", "cgroup limit 8.0 GiB - ..."
};

/// The smallest of MemAvailable and what each control group above this process leaves. Throws Error(internal) if
/// /proc/meminfo says nothing.
HostMemory free_host_memory(const Probe& probe = {});

/// Physical memory that this process holds now [bytes]; 0 if /proc does not say.
std::int64_t resident_bytes();

/// The most that it ever held [bytes].
std::int64_t peak_resident_bytes();

/// A data cache, as the kernel reports it.
struct CpuCache {
  int level = 0;
  std::size_t nbytes = 0;
  int cpus = 1;  ///< hardware threads that share it
};

/// The caches of one hardware thread, which stands for all, nearest first; empty if the kernel does not report them.
std::vector<CpuCache> data_caches(const Probe& probe = {});

}  // namespace busbar
