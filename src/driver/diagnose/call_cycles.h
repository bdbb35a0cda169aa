#pragma once

#include "driver/diagnose/call_alignment.h"

#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

/// Calls on several communicators that wait for each other.
struct DeadlockCycle {
  std::string text;                   ///< "rank 3 waits in AllReduce #5 of communicator 2 for
                                      ///< ranks 0-2, which wait in ..."
  std::vector<std::uint32_t> actors;  ///< of the smallest party
  bool inversion = false;             ///< all called everything, in opposite orders
};

/// `comms` and `alignments` belong together. Looks at the last calls of each
/// rank: a cycle of ranks that wait for each other, or two communicators whose
/// last calls stand in opposite orders on ranks that share both.
std::vector<DeadlockCycle> find_cycles(const JobBook& book, const JobCast& cast, const std::vector<JoinedComm>& comms,
                                       const std::vector<CallAlignment>& alignments);

}  // namespace busbar
