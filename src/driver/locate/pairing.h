#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace busbar {

// Who meets whom. Pure functions of their arguments; equal seeds give equal answers on every machine.
using Pairs = std::vector<std::pair<int, int>>;

/// Round `round` of the round robin over n units by the circle method: n-1 rounds (n where n is odd: one sits out) in
/// which every pair meets exactly once and no unit twice in a round. Pairs are (lower, higher).
Pairs round_robin(int n, int round);
int round_robin_rounds(int n);

/// A random perfect matching; where n is odd one unit sits out.
Pairs random_matching(int n, std::uint64_t seed);

/// Matchings no two of which share a pair: rounds of the round robin over units renumbered at random. Round `i` of them
/// is drawn when asked for, so that thousands cost no memory.
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

/// The pairs in as few rounds as a greedy choice finds (at most one more than needed where no unit is in more than
/// two): in each, no unit is in two. Holds the index of each pair.
std::vector<std::vector<int>> pack_disjoint(const Pairs& pairs);

/// All units in groups of at most half the size from level to level, at random: two groups first, pairs (or threes)
/// last. Levels: ceil(log2 n), one less where halves meet threes.
std::vector<std::vector<std::vector<int>>> halving_levels(int n, std::uint64_t seed);

}  // namespace busbar
