#pragma once

#include "collectives/collective.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace busbar {

/// One point-to-point call of one rank.
struct Transfer {
  enum class Kind : std::uint8_t {
    send,     ///< from the send buffer
    forward,  ///< from the receive buffer: what an earlier step brought
    receive,
  };
  Kind kind = Kind::send;
  int peer = 0;
  std::size_t at = 0;     ///< [elements], in the buffer that the kind names
  std::size_t count = 0;  ///< [elements], never 0

  bool operator==(const Transfer&) const = default;
};

/// What a library that lacks the collective calls once per block, in a group, as PyTorch does: broadcast for
/// all_gatherv, reduce for reduce_scatterv; null elsewhere.
const Collective* called_per_block(const Collective& collective);

/// Whether no library has the collective, so that sends and receives are all there is: sendrecv, hypercube,
/// pingpong.
bool only_transfers(const Collective& collective);

/// Whether a library that lacks the collective runs it as grouped sends and receives: sendrecv, alltoallv, hypercube,
/// pingpong, gatherv, scatterv.
bool made_of_transfers(const Collective& collective);

/// Whether MPI cannot do it in place, so that there a copy of the message is sent: in alltoallv MPI_IN_PLACE takes as
/// much from rank i to j as from j to i, and it counts no further than an int.
bool sends_a_copy_in_place(const Collective& collective, const Problem& problem);

/// Groups of transfers that must follow one another: a later one forwards what an earlier one brought, or answers it.
int transfer_steps(const Collective& collective, const Problem& problem);

/// The transfers of `rank` in group `step` (from 0), for a library that lacks the collective or cannot count so far;
/// none of a reduction, and of those that every library has. Written to `out` whose memory is reused: this runs in the
/// timed loop. A hypercube rank first copies its send data to its place in the receive buffer.
void plan_transfers(const Collective& collective, const Problem& problem, int rank, int step,
                    std::vector<Transfer>& out);

}  // namespace busbar
