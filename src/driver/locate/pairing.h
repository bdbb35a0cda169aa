#pragma once

#include "common/base/enum_words.h"
#include "common/base/packed_fields.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace busbar {

// Units are what may be slow: hosts, or ranks if all are on one host. They are numbered 0 .. nunits-1.

/// Looks at slow units, at most: the first, and others a minute later.
inline constexpr int kMostLooks = 3;

/// What runs at the same time: disjoint groups of units. A group of two is a pair.
struct LocateRound {
  enum class Kind : std::uint8_t {
    calibration,   ///< the same pairs again, to know the noise
    matching,      ///< a random perfect matching (one sits out if the number is odd)
    confirmation,  ///< suspects with partners that were good
    full,          ///< one round of the round robin
    retest,        ///< suspect pairs of the round robin again, as many at once as are disjoint
    direction,     ///< one way: the first of each pair sends to the second
    rail,          ///< only the ranks with local index `rail` take part
    halving,       ///< larger groups
    alone,         ///< suspects only, nothing else running: contention or fault?
  };
  Kind kind = Kind::matching;
  std::vector<std::vector<int>> groups = {};
  bool one_way = false;
  int rail = -1;                ///< -1: all ranks of a unit
  double wait_s = 0;            ///< before it, if it begins a further look
  int look = 0;                 ///< 0: the first
  std::vector<int> again = {};  ///< units that look slow so far, if it begins a further look
};

constexpr EnumWords<9> words_of(LocateRound::Kind) {
  return {"calibration", "matching", "confirmation", "full", "retest", "direction", "rail", "halving", "alone"};
}

BUSBAR_RECORD(LocateRound, kind, groups, one_way, rail, wait_s, look, again);

/// What one group of a round achieved.
struct GroupMeasurement {
  double bandwidth = 0;        ///< [B/s] of the slowest of its links, median of the repetitions
  double variation = 0;        ///< standard deviation over mean of the repetitions
  double p99_over_median = 1;  ///< p99 (or the largest of fewer) over median of the times
  int dips = 0;                ///< repetitions below 0.8 of the group's median
  double sustained = 1;  ///< what all repetitions together reach, of the median one: 0.5 if half of the time is lost
  int repetitions = 0;
};

BUSBAR_RECORD(GroupMeasurement, bandwidth, variation, p99_over_median, dips, sustained, repetitions);

// Who meets whom. Pure functions of their arguments; equal seeds give equal answers on every machine.
using Pairs = std::vector<std::pair<int, int>>;

/// Round `round` of the round robin over n units by the circle method: n-1 rounds (n if n is odd: one sits out) in
/// which every pair meets exactly once and no unit twice in a round. Pairs are (lower, higher).
Pairs round_robin(int n, int round);
int round_robin_rounds(int n);

/// A random perfect matching; if n is odd one unit sits out.
Pairs random_matching(int n, std::uint64_t seed);

/// Matchings no two of which share a pair: rounds of the round robin over units renumbered at random. Round `i` of them
/// is drawn when needed, so that thousands cost no memory.
class DisjointMatchings {
 public:
  DisjointMatchings(int n, std::uint64_t seed);
  /// How many there are: all of them together hold every pair once.
  int size() const;
  Pairs at(int i) const;

 private:
  std::vector<int> label_;  ///< of the units of the round robin
  std::vector<int> order_;  ///< of its rounds
};

/// The pairs in as few rounds as a greedy choice finds (at most one more than needed if no unit is in more than
/// two): in each, no unit is in two. Holds the index of each pair.
std::vector<std::vector<int>> pack_disjoint(const Pairs& pairs);

/// All units in groups of at most half the size from level to level, at random: two groups first, pairs (or threes)
/// last. Levels: ceil(log2 n), one less if halves meet threes.
std::vector<std::vector<std::vector<int>>> halving_levels(int n, std::uint64_t seed);

}  // namespace busbar
