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
  std::string source;  ///< what decided, for the arithmetic: "MemAvailable", "cgroup limit 8.0 GiB - ..."
};

/// The least of MemAvailable and what each control group above this process leaves. Throws Error(internal) where
/// /proc/meminfo says nothing.
HostMemory free_host_memory(const Probe& probe = {});

/// Physical memory that this process holds now [bytes]; 0 where /proc does not tell.
std::int64_t resident_bytes();

/// The most that it ever held [bytes].
std::int64_t peak_resident_bytes();

/// A cache for data, as the kernel tells of it.
struct CpuCache {
  int level = 0;
  std::size_t nbytes = 0;
  int cpus = 1;  ///< hardware threads that share it
};

/// Those of one hardware thread, which stands for all, from the nearest on; empty where the kernel does not tell.
std::vector<CpuCache> data_caches(const Probe& probe = {});

}  // namespace busbar
