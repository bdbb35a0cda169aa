#pragma once

#include "common/watch/host_observer.h"
#include "common/watch/peer_address.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace busbar {

/// Evidence of all hosts. `quick`: 300 ms, as they stand; else 4 to 8 s, the hosts looking at themselves and at each
/// other in between. Hosts that do not answer through any of their processes are unreached. Any thread; blocks.
HangEvidence collect(const JobView& view, HostObserver& own, bool quick);

/// Some processes of the hosts that stand before this one, of which it was met: of many hosts the first and those at
/// distances of 1, 2, 4, ..., so that the lowest that is there is all alone in finding nobody, and all hosts together
/// ask O(N log N) when a job of thousands is ended.
std::vector<PeerAddress> those_before(const JobView& view);

/// Tells those who should collect before this process: the host's speaker, or where this is it, the hosts that stand
/// before it in the job. What the first of them that is there answers; nothing where nobody is.
std::optional<std::string> alarm_others(const JobView& view, int speaker);

/// Before the watchers know each other: how long after its limit a host's speaker waits before it reports what its own
/// host knows [s]. `local`: the records of this host. One that sees a process gone or stopped does not wait, rank 0's
/// gives such a host time to end the job, the others speak where not even rank 0 has.
double lone_report_delay_s(const JobView& view, std::span<const RankEvidence> local);

/// Whether so many hosts were reached, or are only unresponsive, that no other part of a divided job can believe the
/// same of itself. Where some could never meet, the first host speaks in any case.
bool speaks_for_job(const JobView& view, const HangEvidence& evidence);

/// Whether a process of a host that stands before this one in the job still listens, and the first could ask this one.
/// At most 150 ms.
bool another_host_speaks(const JobView& view);

/// Tells every other process of the job, where its host was ever met.
void tell_others(const JobView& view, std::string_view what);

}  // namespace busbar
