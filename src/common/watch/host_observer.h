#pragma once

#include "common/watch/hang_evidence.h"
#include "common/watch/peer_address.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

namespace busbar {

/// After which another host's silence counts.
inline constexpr std::chrono::milliseconds kProbeLimit{2000};

/// The flight records of this job on this host (containers of several hosts may share a folder), each with what /proc
/// says about its process.
std::vector<RankEvidence> read_local_ranks(const JobView& view);

/// Looks at this host in threads of its own, because what they ask (NVML, sysfs, other hosts) can take long or never
/// answer: such a thread is left behind. What was found can be read at any time.
class HostObserver {
 public:
  /// `root`: where the files of /proc and /sys that it reads begin.
  explicit HostObserver(const std::filesystem::path& root = "/");
  HostObserver(const HostObserver&) = delete;
  HostObserver& operator=(const HostObserver&) = delete;
  ~HostObserver() = default;

  /// Notes the counters that later looks are compared with. Returns at once. Any thread.
  void look_early();

  /// Notes to which other hosts this process has connections, when MPI alone has opened any. Any thread.
  void note_links(const JobView& view);

  /// Begins to look for troubles and to probe the other hosts, unless it is at it. Returns at once. Any thread.
  void look_closely(const JobView& view);

  /// This host as known now, its records read anew.
  HostEvidence evidence(const JobView& view);

 private:
  struct Seen;

  const pid_t parent_ = getppid();  ///< at the start: the launcher, or its daemon of this host
  std::shared_ptr<Seen> seen_;      ///< its threads' too
};

/// The processes to probe from a host: one of every other host, or where there are many, of those at distances of 1, 2,
/// 4, ... from it in both directions; none that it could not reach when the job began.
std::vector<PeerAddress> probe_targets(const JobView& view);

}  // namespace busbar
