#pragma once

#include "common/evidence/hang_evidence.h"

#include <optional>
#include <span>

namespace busbar {

// How long each step may take.

/// `--hang-timeout` was not given.
inline constexpr double kAutomaticLimit = -1;

/// How long MPI's and NCCL's start, allocation and end may take without any progress [s]: max(120, 30 + 0.1 per
/// process). If a limit was requested, that, but at least 30: a request to find hangs of operations within seconds does
/// not mean that a job of thousands must start within them.
double start_limit_s(int nprocs, double asked_s = kAutomaticLimit);

/// How long a step may take that should take `expected_s` [s]: max(30, 20 * expected_s).
double step_limit_s(double expected_s);

/// How long process 0 may take to write results, and how long a part of the job that never reached its watcher waits
/// for it [s]: a file server that fails over takes minutes, and that must not end a job.
inline constexpr double kOutputLimit = 600;
/// The same if a limit was requested: at least as much, and none if none is wanted.
double output_limit_s(double asked_s);
/// The rank that writes, and still may, while others have waited beyond their own limits; null if there is none.
const RankEvidence* writer(const HangEvidence& evidence);

/// A step that still moves is ended only after this time [s]: ten times its limit, and twice the time that the whole
/// step would take at its pace so far. `done` of `total` operations are done; total 0: not known.
double slow_limit_s(double limit_s, double step_age_s, double done, double total);

// Whether a job moves.

/// Whether a process can answer: it exists, is not stopped, and its watcher beats.
bool is_lively(const RankEvidence& rank);

/// Whether a process may still move: it is lively, or its watcher is late because it waits for a core (state R), as on
/// an overloaded host.
bool can_move(const RankEvidence& rank);

/// Whether every process that was reached may still move.
bool all_can_move(const HangEvidence& evidence);

/// The rank that speaks for a host: its lowest lively one; nullopt if there is none.
std::optional<int> host_reader(std::span<const RankEvidence> ranks);

/// Seconds since anything in the job advanced, as far as it was reached: the smallest idle_s; 0 if no rank was.
double job_idle_s(const HangEvidence& evidence);

/// Seconds until the job counts as hung if nothing advances: every rank that can move must have been idle for its own
/// limit. 0 or less: it hangs. Ranks without a limit do not count.
double patience_s(const HangEvidence& evidence);

/// A rank whose process a debugger traces, stopped or not; null if there is none.
const RankEvidence* traced(const HangEvidence& evidence);

/// The smallest limit of the ranks that can move [s]; 0 if none has one.
double shortest_limit_s(const HangEvidence& evidence);

/// Whether the network still carries what may be the job's messages: over 256 KiB/s on some host while all can move.
bool network_moves(const HangEvidence& evidence);

}  // namespace busbar
