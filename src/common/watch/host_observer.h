#pragma once

#include "common/watch/hang_evidence.h"
#include "common/watch/peer_address.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace busbar {

/// After which another host's silence counts.
inline constexpr std::chrono::milliseconds kProbeLimit{2000};

/// The flight records of this job on this host (containers of several hosts may share a folder), each with what /proc
/// says about its process.
std::vector<RankEvidence> read_local_ranks(const JobView& view);

/// Looks at this host in a thread of its own, because what it asks (NVML, sysfs, other hosts) can take long or never
/// answer; its findings can be read at any time.
class HostObserver {
 public:
  HostObserver() = default;
  HostObserver(const HostObserver&) = delete;
  HostObserver& operator=(const HostObserver&) = delete;
  ~HostObserver();

  /// Notes the counters that later looks are compared with.
  void look_early();

  /// Begins to look for troubles and to probe the other hosts, unless it is at it. Returns at once. Any thread.
  void look_closely(const JobView& view);

  /// This host as known now, its records read anew.
  HostEvidence evidence(const JobView& view);

 private:
  using Clock = std::chrono::steady_clock;

  void work(const JobView& view);
  void note_network();

  const pid_t parent_ = getppid();  ///< at the start: the launcher, or its daemon of this host
  std::mutex mutex_;
  Clock::time_point noted_{};  ///< since when the network is observed
  std::uint64_t noted_bytes_ = 0;
  std::uint64_t noted_own_bytes_ = 0;  ///< of which this watcher's
  std::map<std::string, std::uint64_t> early_counters_;
  double net_bytes_per_s_ = -1;
  std::vector<Trouble> troubles_;
  std::vector<PeerProbe> probes_;
  int mtu_ = 0;
  bool working_ = false;
  std::mutex thread_mutex_;  ///< over what follows: a look may be over before who began it has put its thread here
  std::thread thread_;
};

/// The processes to probe from a host: one of every other host, or where there are many, of those at distances of 1, 2,
/// 4, ... from it in both directions.
std::vector<PeerAddress> probe_targets(const JobView& view);

}  // namespace busbar
