#pragma once

#include "common/watch/host_observer.h"
#include "common/watch/job_view.h"

#include <chrono>
#include <functional>

namespace busbar {

// What watchers ask each other.
inline constexpr std::string_view kAskEvidence = "evidence";  ///< the host as encode() writes it; begins a closer look
inline constexpr std::string_view kAlarm = "alarm";           ///< somebody's limit is over: collect
inline constexpr std::string_view kFailing =
    "failing";  ///< the job is about to end because of an error, told by others
inline constexpr std::string_view kStopAndKeep = "stop-and-keep";  ///< the same, leaving the flight record
inline constexpr std::string_view kStop = "stop";                  ///< leave with exit code 4

/// Evidence of all hosts. `quick`: 300 ms, as they stand; else about 6 s, the hosts looking at themselves and at each
/// other in between. Hosts that do not answer through any of their processes are unreached. Any thread; blocks.
HangEvidence collect(const JobView& view, HostObserver& own, bool quick, const std::function<void()>& meanwhile);

/// Whether another host that stands before this one in the job is there to collect: it has been told to.
bool alarm_others(const JobView& view);

/// Whether so many hosts were reached that no other part of a divided job can believe the same of itself.
bool holds_majority(const JobView& view, const HangEvidence& evidence);

/// Tells every other process of the job to leave. `keep`: their records stay.
void stop_others(const JobView& view, bool keep);

}  // namespace busbar
