#pragma once

#include "common/measure/result.h"
#include "common/measure/verify.h"

namespace busbar {

/// Verifies one placement as -c says, after its timed operations (where those can be judged: half.timed_verified) and
/// with operations of its own. Sets half.wrong, the same on every process, and appends to row.wrong, complete on
/// process 0. Collective over `world`; the rounds are agreed on, so that all processes stop after the same one.
void check_half(Backend& backend, const Comm& world, const Config& config, Verifier& verifier, const Workload& workload,
                const FailJob& fail, HalfResult& half, Row& row);

/// Runs the workload's operation once, untimed, between observe_begin and observe_end (--show-algo). Every process must
/// call it; complete on the process of rank 0.
ShownAlgorithm observe_operation(Backend& backend, const Workload& workload, const FailJob& fail);

/// algbw and busbw [1e9 B/s] of an operation that takes `time_s`.
void set_bandwidths(const Collective& collective, const Problem& problem, double time_s, HalfResult& half);

/// Slots are there to defeat caches; more than this many would only make filling and checking long.
inline constexpr std::size_t kMaxSlots = 256;

/// Bytes of the plan's largest message.
std::size_t largest_message(const Plan& plan);

/// "all_reduce of 64 MiB float sum": how messages name a row.
std::string describe(const Collective& collective, const Case& row_case);

}  // namespace busbar
