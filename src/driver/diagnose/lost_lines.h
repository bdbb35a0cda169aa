#pragma once

#include "driver/diagnose/rank_map.h"

#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

/// Whose logs lack lines in their middle (rate limits, torn lines, excerpts): what is not told there may have happened.
struct LostLines {
  std::vector<bool> of_actor;
  std::string sign;  ///< what shows it first: "opCount passes over 3 calls of rank 5"; empty: nothing is missing
  /// Whose last lines may be in a stretch that is missing: in a file of ranks one behind the other, the last in front
  /// of it. They may have come further than is told.
  std::vector<bool> ends_early;

  bool any() const { return !sign.empty(); }
  bool may_lack_end(std::uint32_t actor) const { return of_actor[actor] || ends_early[actor]; }
};

/// Whoever writes into the same file loses lines with the others.
LostLines find_lost_lines(const JobBook& book, const RankMap& rank_map, const std::vector<JoinedComm>& comms);

}  // namespace busbar
