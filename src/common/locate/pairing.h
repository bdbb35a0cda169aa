#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace busbar {

// Who meets whom. Pure functions of their arguments; pairs are (lower, higher).
using Pairs = std::vector<std::pair<int, int>>;

/// Round `round` of the round robin over n units by the circle method: n-1 rounds (n where n is odd: one sits out) in
/// which every pair meets exactly once and no unit twice in a round.
Pairs round_robin(int n, int round);
int round_robin_rounds(int n);

/// A random perfect matching; where n is odd one unit sits out. Equal seeds give equal matchings on every machine.
Pairs random_matching(int n, std::uint64_t seed);

}  // namespace busbar
