#pragma once

#include "driver/diagnose/rank_map.h"

#include <string>
#include <vector>

namespace busbar {

/// Whose logs lack lines in their middle (rate limits, torn lines, excerpts): what is not told there may have happened.
struct LostLines {
  std::vector<bool> of_actor;
  std::string sign;  ///< what shows it first: "opCount passes over 3 calls of rank 5"; empty: nothing is missing

  bool any() const { return !sign.empty(); }
};

/// Whoever writes into the same file loses lines with the others.
LostLines find_lost_lines(const JobBook& book, const RankMap& rank_map, const std::vector<JoinedComm>& comms);

}  // namespace busbar
