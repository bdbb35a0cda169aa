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

/// Whether a library without the collective itself runs it as grouped sends and receives: sendrecv, alltoallv,
/// hypercube, pingpong.
bool made_of_transfers(CollectiveId id);

/// Groups of transfers that must follow one another: a later one forwards what an earlier one brought, or answers it.
int transfer_steps(const Collective& collective, const Problem& problem);

/// The transfers of `rank` in group `step` (from 0), written to `out` whose memory is reused: this runs in the timed
/// loop. A hypercube rank first copies its send data to its place in the receive buffer.
void plan_transfers(const Collective& collective, const Problem& problem, int rank, int step,
                    std::vector<Transfer>& out);

}  // namespace busbar
