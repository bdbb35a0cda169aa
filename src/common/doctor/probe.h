#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// The one way in which checks look at a machine, so that they are tested on recorded ones: a folder that stands for
/// "/", and what no file says. Reads only; a file that would block or never ends (/dev/kmsg) has its own member.
struct Probe {
  std::string root = "/";

  struct Mount {
    std::uint64_t nbytes = 0;
    std::uint64_t free_bytes = 0;
  };
  /// A resource limit; nothing: unlimited.
  using Limit = std::optional<std::uint64_t>;

  std::map<std::string, std::string> environment;  ///< of this process (in a job: of this rank)
  std::map<std::string, Limit> limits;             ///< "memlock" [bytes], "nofile", "stack" [bytes]
  std::map<std::string, Mount> mounts;             ///< "/dev/shm", "/tmp", the home folder's path as "home"
  std::vector<int> cpus;                           ///< this process may run on
  unsigned uid = 0;
  std::string host;
  std::string kernel;                                  ///< uname -r
  std::optional<std::vector<std::string>> kernel_log;  ///< lines; nothing: not readable
  double now_s = 0;                                    ///< since the epoch: ages of files are told against it
  std::map<std::string, std::string> notes;  ///< what only the caller knows: "nccl.loaded", "nccl.compiled", "mpi"

  /// The text of a file, at most 1 MiB, without trailing white space; nothing where it cannot be read.
  std::optional<std::string> read(const std::string& path) const;
  /// Names in a folder, sorted; empty where there is none.
  std::vector<std::string> list(const std::string& path) const;
  /// The last component of where a link points; nothing where it is none.
  std::optional<std::string> link_name(const std::string& path) const;
  bool exists(const std::string& path) const;
};

/// This machine, as this process sees it.
Probe probe_this_machine();

/// A recorded one: files below `folder`/root, the members above from `folder`/probe.txt (lines "limit memlock 65536",
/// "mount /dev/shm 67108864 1000", "env NAME=VALUE", "kmsg TEXT", ...). Throws Error(bad_config) naming the line.
Probe probe_recorded(const std::string& folder);

}  // namespace busbar
