#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace busbar {

/// A cache for data, as the kernel tells of it.
struct CpuCache {
  int level = 0;
  std::size_t nbytes = 0;
  int cpus = 1;  ///< hardware threads that share it
};

/// Those of one hardware thread, which stands for all, from the nearest on; empty where the kernel does not tell.
/// `root` is where /sys is looked for.
std::vector<CpuCache> data_caches(const std::filesystem::path& root = "/");

}  // namespace busbar
