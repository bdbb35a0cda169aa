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
    forward,  ///< from the receive buffer: received in an earlier step
    receive,
  };
  Kind kind = Kind::send;
  int peer = 0;
  std::size_t at = 0;     ///< [elements], in the buffer that the kind names
  std::size_t count = 0;  ///< [elements], never 0

  bool operator==(const Transfer&) const = default;
};

/// The collective that replaces a missing one, called once per block in a group, as PyTorch does: broadcast for
/// all_gatherv, reduce for reduce_scatterv; null for others.
const Collective* called_per_block(const Collective& collective);

/// Whether no library has the collective, so that it is always sends and receives: sendrecv, hypercube, pingpong.
bool only_transfers(const Collective& collective);

/// Whether a library that lacks the collective runs it as grouped sends and receives: sendrecv, alltoallv, hypercube,
/// pingpong, gatherv, scatterv.
bool made_of_transfers(const Collective& collective);

/// Whether MPI cannot do it in place, so that a copy of the message is sent: alltoallv's MPI_IN_PLACE needs equal
/// counts from rank i to j and from j to i, and counts in an int.
bool sends_a_copy_in_place(const Collective& collective, const Problem& problem);

/// Groups of transfers in sequence: a later one forwards what an earlier one brought, or answers it.
int transfer_steps(const Collective& collective, const Problem& problem);

/// The transfers of `rank` in group `step` (from 0), for a library that lacks the collective (NCCL before 2.28 has no
/// alltoall, gather and scatter) or cannot count so far; none for a reduction or what every library has. Reuses the
/// memory of `out`: this runs in the timed loop. A hypercube rank first copies its send data to its place in the
/// receive buffer.
void plan_transfers(const Collective& collective, const Problem& problem, int rank, int step,
                    std::vector<Transfer>& out);

}  // namespace busbar
