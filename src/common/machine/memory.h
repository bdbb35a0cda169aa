#pragma once

#include "common/machine/probe.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

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
