#pragma once

#include "common/watch/hang_evidence.h"

#include <optional>
#include <span>

namespace busbar {

// How long what may take.

/// `--hang-timeout` was not given.
inline constexpr double kAutomaticLimit = -1;

/// How long MPI's and NCCL's start, allocation and end may take without any progress [s]: max(120, 30 + 0.1 per
/// process); where a limit was asked for, that, but no less than 30: who wants hangs of operations found within seconds
/// does not mean that a job of thousands must start within them.
double start_limit_s(int nprocs, double asked_s = kAutomaticLimit);

/// How long a step may take that should take `expected_s` [s]: max(30, 20 times that).
double step_limit_s(double expected_s);

/// How long process 0 may take to write results, and a part of the job that never met its watcher waits for it [s]: a
/// file server that fails over takes minutes, and nobody is ended for it.
inline constexpr double kOutputLimit = 600;
/// The same where a limit was asked for: no less, and none where none is wanted.
double output_limit_s(double asked_s);
/// The rank that writes, and may yet, while others have waited for longer than their own limits; null where none does.
const RankEvidence* writer(const HangEvidence& evidence);

/// A step that still moves is ended only after this time [s]: ten times its limit, and twice the time that the whole
/// step would take at its pace so far. `done` of `total` operations are done; total 0: not known.
double slow_limit_s(double limit_s, double step_age_s, double done, double total);

// Whether a job moves.

/// Whether a process can speak: it exists, is not stopped, and its watcher beats.
bool is_lively(const RankEvidence& rank);

/// Whether a process may still move: it is lively, or its watcher is late while it waits for a core (state R), as on a
/// host with too much to do.
bool can_move(const RankEvidence& rank);

/// Whether every process that was reached may.
bool all_can_move(const HangEvidence& evidence);

/// The rank that speaks for a host: its lowest lively one; nothing where none is.
std::optional<int> host_reader(std::span<const RankEvidence> ranks);

/// Seconds since anything in the job advanced, as far as it was reached: the smallest idle_s; 0 where nobody was.
double job_idle_s(const HangEvidence& evidence);

/// Seconds until the job counts as hung if nothing advances: every rank that can move must have been idle for its own
/// limit. 0 or less: it hangs. Ranks without a limit do not hold it up.
double patience_s(const HangEvidence& evidence);

/// A rank whose process a debugger traces, stopped or not; null where there is none.
const RankEvidence* traced(const HangEvidence& evidence);

/// The least of the limits of the ranks that can move [s]; 0 where none has one.
double shortest_limit_s(const HangEvidence& evidence);

/// Whether the network still carries what looks like the job's messages: over 256 KiB/s on some host while every rank
/// can move.
bool network_moves(const HangEvidence& evidence);

}  // namespace busbar
