#pragma once

#include "common/evidence/hang_evidence.h"
#include "common/watch/peer_address.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

namespace busbar {

/// The time after which another host's silence counts.
inline constexpr std::chrono::milliseconds kProbeLimit{2000};

/// The flight records of this job on this host, each with the state of its process in /proc. Containers of several
/// hosts may share a folder.
std::vector<RankEvidence> read_local_ranks(const JobView& view);

/// Observes this host in detached threads, because NVML, sysfs and other hosts may take long or never answer. You can
/// read the findings at any time.
class HostObserver {
 public:
  /// `root`: the folder that stands for / in paths of /proc and /sys.
  explicit HostObserver(const std::filesystem::path& root = "/");
  HostObserver(const HostObserver&) = delete;
  HostObserver& operator=(const HostObserver&) = delete;
  ~HostObserver() = default;

  /// Notes the counters with which later observations are compared. Returns at once. Any thread.
  void observe_early();

  /// Notes the other hosts to which this process has connections, when only MPI has opened any. Any thread.
  void note_links(const JobView& view);

  /// Begins to look for troubles and to probe the other hosts, unless it already does. Returns at once. Any thread.
  void look_closely(const JobView& view);

  /// This host as known now, its records read again.
  HostEvidence evidence(const JobView& view);

 private:
  struct Seen;

  const pid_t parent_ = getppid();  ///< at the start: the launcher, or its daemon of this host
  std::shared_ptr<Seen> seen_;      ///< shared with its threads
};

/// The processes to probe from a host: one of every other host; if there are many, of those at distances of 1, 2, 4,
/// ... in both directions. None that it could not reach when the job began.
std::vector<PeerAddress> probe_targets(const JobView& view);

}  // namespace busbar
