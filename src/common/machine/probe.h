#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

struct RecordedFiles;

/// [bytes] of a file in /proc that grows with a process, or with the sockets of a host.
inline constexpr std::size_t kLongFile = 16 << 20;

/// The only way in which checks read a machine, so that tests use recorded ones: files and links below a root, and
/// facts in no file. Only reads, and never blocks: a file that never ends (/dev/kmsg) has its own member.
struct Probe {
  Probe(const std::filesystem::path& folder = "/") : root(folder) {}

  std::string root;                               ///< a folder that stands for "/"
  std::shared_ptr<const RecordedFiles> recorded;  ///< if set: these instead of `root`

  struct Mount {
    std::uint64_t nbytes = 0;
    std::uint64_t free_bytes = 0;
  };
  /// A resource limit; nullopt: unlimited.
  using Limit = std::optional<std::uint64_t>;

  std::map<std::string, std::string> environment;  ///< of this process (in a job: of this rank)
  std::map<std::string, Limit> limits;             ///< "memlock" [bytes], "nofile", "stack" [bytes]
  std::map<std::string, Mount> mounts;             ///< "/dev/shm", "/tmp", the home folder's path as "home"
  std::vector<int> cpus;                           ///< this process may run on
  unsigned uid = 0;
  std::string host;
  std::string kernel;                                  ///< uname -r
  std::optional<std::vector<std::string>> kernel_log;  ///< lines; nullopt: not readable
  double now_s = 0;                                    ///< since the epoch; ages of files count back from it
  std::map<std::string, std::string> notes;  ///< known only to the caller: "nccl.loaded", "ib.active_mtu.mlx5_0/1",
                                             ///< "kernel.now": seconds on the clock of the kernel's log

  /// The stat(2) data of a file.
  struct Status {
    std::uint64_t nbytes = 0;
    unsigned uid = 0;
    double modified_s = 0;  ///< since the epoch
  };

  /// The text of a file, at most so many bytes, without trailing white space; nullopt if it cannot be read.
  std::optional<std::string> read(const std::string& path, std::size_t most_bytes = 1 << 20) const;
  /// Its lines; none if it cannot be read.
  std::vector<std::string> lines(const std::string& path) const;
  /// Names in a folder, sorted; empty if there is none.
  std::vector<std::string> list(const std::string& path) const;
  /// A link's target as the kernel writes it ("socket:[4242]"), which is not touched; nullopt if it is no link.
  std::optional<std::string> link_text(const std::string& path) const;
  /// The last component of a link's target; nullopt if it is no link.
  std::optional<std::string> link_name(const std::string& path) const;
  /// The path with all links followed, as seen below the root; nullopt if it does not exist. For the PCI tree.
  std::optional<std::string> resolve(const std::string& path) const;
  std::optional<Status> status(const std::string& path) const;
  /// Whether this process may read and write it (a device; opens nothing).
  bool usable(const std::string& path) const;
  bool exists(const std::string& path) const;
};

/// This machine, as this process sees it.
Probe probe_this_machine();

/// A recorded machine, from the text of a recording; `name` is for messages. A later line replaces an earlier one, so
/// that a sick machine is a healthy one's text and a few more lines:
///   file /proc/sys/kernel/numa_balancing 0      (text to the end of the line; \n, \t, \\ and \x1f inside)
///   link /sys/class/net/eth0 ../../devices/...  (folders are there by what is in them)
///   folder /dev/infiniband                      (an empty one)
///   gone /sys/class/infiniband/mlx5_3           (with all below)
///   status /dev/shm/nccl-x 1000 9633792 1700000000.0   (uid, bytes, modified; an empty file if there is none)
///   denied /dev/infiniband/uverbs0              (exists, but may not be opened)
///   env NAME=VALUE · limit memlock 65536 · limit nofile unlimited · mount /dev/shm 67108864 1000 · cpus 0-7,16
///   uid 1000 · host node1 · kernel 5.15.0 · now 1700000000.0 · note nccl.loaded 2.28.9
///   kmsg TEXT    (a line of the kernel's log; "kmsg" alone: readable and empty; none: not readable)
///   # comment
/// Throws Error(bad_config) naming the line.
Probe probe_recorded(std::string_view text, const std::string& name);

}  // namespace busbar
