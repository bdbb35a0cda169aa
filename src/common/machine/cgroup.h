#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// This process's control groups for one controller, as directories that exist, from its own up to the topmost visible
/// one (a limit may stand at any of them); empty where the controller is not mounted.
struct CgroupDirs {
  int version = 0;  ///< 1 or 2; 0: none
  std::vector<std::filesystem::path> dirs;
};

/// `controller`: "memory", "cpu" or "cpuset". `root` is where /proc and /sys are looked for.
CgroupDirs cgroup_dirs(std::string_view controller, const std::filesystem::path& root = "/");

/// The file without trailing white space, or nothing when it cannot be read.
std::optional<std::string> read_trimmed(const std::filesystem::path& file);

/// The number after `key` and white space (or a colon) in a file of such lines: /proc/meminfo, memory.stat.
std::optional<long long> read_value(const std::filesystem::path& file, std::string_view key);

/// A file that holds one number, or nothing ("max" is nothing too).
std::optional<long long> read_number(const std::filesystem::path& file);

}  // namespace busbar
