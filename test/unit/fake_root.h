#pragma once

#include "temp_dir.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace busbar {

/// A tree that stands for /, so that host facts can be told of machines that are not here.
class FakeRoot {
 public:
  /// Writes one file, with the folders above it.
  FakeRoot& file(const std::string& name, const std::string& text) {
    const std::filesystem::path target = path() / name;
    std::filesystem::create_directories(target.parent_path());
    std::ofstream(target) << text;
    return *this;
  }

  /// The process asking is in these control groups, mounted where systemd mounts them.
  FakeRoot& cgroup_v2(const std::string& group, const std::string& mount_root = "/") {
    file("proc/self/cgroup", "0::" + group + "\n");
    return file("proc/self/mountinfo", "25 1 0:22 / /proc rw - proc proc rw\n36 25 0:30 " + mount_root +
                                           " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

  std::filesystem::path path() const { return dir_->path(); }

 private:
  std::unique_ptr<TempDir> dir_ = std::make_unique<TempDir>();
};

}  // namespace busbar
