#pragma once

#include "common/watch/hang_evidence.h"

#include <optional>
#include <span>

namespace busbar {

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

/// Whether the network still carries what looks like the job's messages: over 256 KiB/s on some host while every rank
/// can move.
bool network_moves(const HangEvidence& evidence);

}  // namespace busbar
