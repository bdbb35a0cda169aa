#pragma once

#include "common/mpi/comm.h"

#include <functional>
#include <span>

namespace busbar {

/// Clocks as this file takes them: seconds since a moment of their own.
using ReadSeconds = std::function<double()>;

/// How far this process's clock is ahead of another's.
struct PairOffset {
  double at_s = 0;      ///< this process's clock when it was measured
  double ahead_s = 0;   ///< own less the other's
  double within_s = 0;  ///< the truth is not farther away than this
};

/// One offset by the SKaMPI envelope: a reply's time stamp lies between our two clock readings around it, so each of up
/// to 100 round trips bounds the offset from both sides (Worsch, Reussner & Augustin, EuroPVM/MPI 2002). The process
/// `reference` must be in serve_offsets at the time.
PairOffset measure_offset(const Comm& comm, int reference, const ReadSeconds& own);

/// Ends `reference`'s serve_offsets.
void end_offsets(const Comm& comm, int reference);

/// Replies to `client`'s measure_offset with this process's clock, until its end_offsets.
void serve_offsets(const Comm& comm, int client, const ReadSeconds& own);

/// ahead(t) = offset_s + drift * t.
struct ClockModel {
  double offset_s = 0;
  double drift = 0;
};

/// Least squares over the offsets, each weighed by its own bound, so that round trips that met a busy core count for
/// little; the drift is drawn to 0 as far as the offsets scatter too much to tell it. Pure.
ClockModel fit_clock(std::span<const PairOffset> offsets);

}  // namespace busbar
