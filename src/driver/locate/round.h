#pragma once

#include <cstdint>
#include <vector>

namespace busbar {

// Units are what may be slow: hosts, or ranks where all are on one host. They are numbered 0 .. nunits-1.

/// What runs at the same time: disjoint groups of units. A group of two is a pair.
struct LocateRound {
  enum class Kind : std::uint8_t {
    calibration,   ///< the same pairs again, to know the noise
    matching,      ///< a random perfect matching (one sits out where the number is odd)
    confirmation,  ///< suspects with partners that were good
    full,          ///< one round of the round robin
    retest,        ///< suspect pairs of the round robin again, as many at once as are disjoint
    direction,     ///< one way: the first of each pair sends to the second
    rail,          ///< only the ranks with local index `rail` take part
    halving,       ///< larger groups
    alone,         ///< suspects only, nothing else running: contention or fault?
  };
  Kind kind = Kind::matching;
  std::vector<std::vector<int>> groups;
  bool one_way = false;
  int rail = -1;  ///< -1: all ranks of a unit
};

/// What one group of a round achieved.
struct GroupMeasurement {
  double bandwidth = 0;  ///< [B/s] of the slowest of its links, median of the repetitions
  double variation = 0;  ///< standard deviation over mean of the repetitions
  double tail = 1;       ///< p99 (or the largest of fewer) over median of the times
  int dips = 0;          ///< repetitions below 0.8 of the group's median
  double sustained = 1;  ///< what all repetitions together reach, of the median one: 0.5 where half of the time is lost
  int repetitions = 0;
};

}  // namespace busbar
