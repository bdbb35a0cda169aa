#pragma once

#include "common/evidence/hang_evidence.h"
#include "common/watch/peer_address.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

/// Evidence of all hosts. `quick`: as they are, within twice `limit`; else 4 to 8 s, in which the hosts examine
/// themselves and each other. A host is unreached if none of its processes answers. Any thread; blocks.
HangEvidence collect(const JobView& view, HostObserver& own, bool quick,
                     std::chrono::milliseconds limit = std::chrono::milliseconds(150));

/// Some processes of the hosts before this one that it reached at the start. Of many hosts, the first and those at
/// distances of 1, 2, 4, ...: so only the lowest host that is left finds nobody, and ending a job of thousands of hosts
/// takes O(N log N) questions.
std::vector<PeerAddress> those_before(const JobView& view);

/// Alarms the processes that should collect before this one: the host's reporter, or if this is it, the hosts before it
/// in the job. Returns the first answer; nullopt if none answers.
std::optional<std::string> alarm_others(const JobView& view, int reporter);

/// Before the watchers know each other: how long after its limit a host's reporter waits before it reports what its own
/// host knows [s]. `local`: the records of this host. It does not wait if a process is gone or stopped here. Rank 0's
/// host gives such a host time to end the job; the others report if rank 0's host has not.
double lone_report_delay_s(const JobView& view, std::span<const RankEvidence> local);

/// Whether so many hosts were reached, or are only unresponsive, that no other part of a divided job can believe the
/// same of itself. If some hosts could never connect, the first host speaks in any case.
bool reports_for_job(const JobView& view, const HangEvidence& evidence);

/// Whether a process of a host before this one in the job still listens, and the first host could ask this one.
bool another_host_reports(const JobView& view, std::chrono::milliseconds limit = std::chrono::milliseconds(150));

/// Sends `what` to every other process of the job whose host was reached at the start.
void notify_others(const JobView& view, std::string_view what);

}  // namespace busbar
