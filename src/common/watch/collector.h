#pragma once

#include "common/watch/host_observer.h"
#include "common/watch/peer_address.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace busbar {

/// Evidence of all hosts. `quick`: 300 ms, as they are; else 4 to 8 s, in which the hosts examine themselves and each
/// other. A host is unreached if none of its processes answers. Any thread; blocks.
HangEvidence collect(const JobView& view, HostObserver& own, bool quick);

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

/// Whether a process of a host before this one in the job still listens, and the first host could ask this one. At most
/// 150 ms.
bool another_host_reports(const JobView& view);

/// Sends `what` to every other process of the job whose host was reached at the start.
void notify_others(const JobView& view, std::string_view what);

}  // namespace busbar
