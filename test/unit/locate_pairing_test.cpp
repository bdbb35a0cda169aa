// Would catch: pairs that never meet (a script in the field tests a quarter of its nodes), a unit in two pairs at once,
// a matching that differs from machine to machine.

#include "driver/locate/pairing.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

using namespace busbar;

namespace {

/// Every unit at most once, each pair in order and within 0 .. n-1.
bool disjoint(const Pairs& pairs, int n) {
  std::set<int> seen;
  for (const auto& [a, b] : pairs) {
    if (a >= b || a < 0 || b >= n || !seen.insert(a).second || !seen.insert(b).second) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("In a round robin every pair meets exactly once and nobody is in two pairs of a round", "[locate]") {
  for (int n = 2; n <= 65; ++n) {
    INFO(n);
    std::multiset<std::pair<int, int>> met;
    CHECK(round_robin_rounds(n) == (n % 2 == 0 ? n - 1 : n));
    for (int round = 0; round < round_robin_rounds(n); ++round) {
      const Pairs pairs = round_robin(n, round);
      CHECK(static_cast<int>(pairs.size()) == n / 2);
      CHECK(disjoint(pairs, n));
      met.insert(pairs.begin(), pairs.end());
    }
    CHECK(static_cast<int>(met.size()) == n * (n - 1) / 2);
    CHECK(std::set<std::pair<int, int>>(met.begin(), met.end()).size() == met.size());
  }
}

TEST_CASE("Less than two units have no round robin", "[locate]") {
  CHECK(round_robin_rounds(0) == 0);
  CHECK(round_robin_rounds(1) == 0);
  CHECK(round_robin(1, 0).empty());
  CHECK(random_matching(1, 1).empty());
  CHECK(random_matching(0, 1).empty());
}

TEST_CASE("A random matching is perfect, and one sits out where the number is odd", "[locate]") {
  for (const int n : {2, 3, 8, 9, 64, 65, 4096}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const Pairs pairs = random_matching(n, seed);
      CHECK(static_cast<int>(pairs.size()) == n / 2);
      CHECK(disjoint(pairs, n));
    }
  }
}

TEST_CASE("Equal seeds give equal matchings, other seeds others", "[locate]") {
  CHECK(random_matching(64, 7) == random_matching(64, 7));
  CHECK(random_matching(64, 7) != random_matching(64, 8));
  CHECK(DisjointMatchings(64, 7).at(3) == DisjointMatchings(64, 7).at(3));
  CHECK(DisjointMatchings(64, 7).at(3) != DisjointMatchings(64, 8).at(3));
  // By an mt19937_64 written down from its definition, elsewhere: what every machine must draw.
  CHECK(random_matching(8, 1) == Pairs{{4, 6}, {3, 5}, {1, 7}, {0, 2}});
}

TEST_CASE("In random matchings everybody meets everybody about equally often", "[locate]") {
  constexpr int kUnits = 8;
  constexpr int kDraws = 7000;
  int met[kUnits][kUnits] = {};
  int first[kUnits][kUnits] = {};
  for (int seed = 0; seed < kDraws; ++seed) {
    for (const auto& [a, b] : random_matching(kUnits, static_cast<std::uint64_t>(seed))) ++met[a][b];
    for (const auto& [a, b] : DisjointMatchings(kUnits, static_cast<std::uint64_t>(seed)).at(0)) ++first[a][b];
  }
  for (int a = 0; a < kUnits; ++a) {
    for (int b = a + 1; b < kUnits; ++b) {  // 1000 each, deviation 29
      CHECK(std::abs(met[a][b] - 1000) < 150);
      CHECK(std::abs(first[a][b] - 1000) < 150);
    }
  }
}

TEST_CASE("Disjoint matchings never repeat a pair and together hold all", "[locate]") {
  for (const int n : {2, 3, 8, 13, 64}) {
    const DisjointMatchings matchings(n, 42);
    std::set<std::pair<int, int>> met;
    for (int i = 0; i < matchings.size(); ++i) {
      const Pairs pairs = matchings.at(i);
      CHECK(disjoint(pairs, n));
      for (const auto& pair : pairs) CHECK(met.insert(pair).second);
    }
    CHECK(static_cast<int>(met.size()) == n * (n - 1) / 2);
  }
}

TEST_CASE("Pairs that share nobody run at once, the others in as many rounds as the busiest unit needs", "[locate]") {
  CHECK(pack_disjoint({}).empty());
  CHECK(pack_disjoint({{0, 1}, {2, 3}, {4, 5}}).size() == 1);
  CHECK(pack_disjoint({{0, 1}, {0, 2}, {0, 3}}).size() == 3);
  CHECK(pack_disjoint({{4, 5}, {0, 1}, {0, 2}, {0, 3}, {5, 6}}).size() == 3);
  // The busiest first: 0 decides that there are three rounds, then those of 5 fill the first two.
  CHECK(pack_disjoint({{4, 5}, {0, 1}, {0, 2}, {0, 3}, {5, 6}}) == std::vector<std::vector<int>>{{1, 0}, {2, 4}, {3}});
  CHECK(pack_disjoint({{0, 1}, {2, 8}, {3, 8}}) == std::vector<std::vector<int>>{{1, 0}, {2}});
  CHECK(pack_disjoint({{0, 1}, {8, 2}, {8, 3}}) == std::vector<std::vector<int>>{{1, 0}, {2}});
  const Pairs all = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 0}, {0, 1}};
  std::vector<int> held;
  for (const std::vector<int>& round : pack_disjoint(all)) {
    std::set<int> seen;
    for (const int i : round) {
      CHECK(seen.insert(all[static_cast<std::size_t>(i)].first).second);
      CHECK(seen.insert(all[static_cast<std::size_t>(i)].second).second);
      held.push_back(i);
    }
  }
  std::sort(held.begin(), held.end());
  CHECK(held == std::vector<int>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("Halving splits every group until it is a pair or three, and loses nobody", "[locate]") {
  for (const int n : {2, 3, 4, 5, 8, 13, 64, 100}) {
    INFO(n);
    const auto levels = halving_levels(n, 3);
    REQUIRE_FALSE(levels.empty());
    std::size_t largest = static_cast<std::size_t>(n);
    for (const auto& level : levels) {
      std::vector<int> all;
      for (const std::vector<int>& group : level) {
        CHECK(group.size() >= 2);
        CHECK((group.size() <= (largest + 1) / 2 || group.size() <= 3));
        all.insert(all.end(), group.begin(), group.end());
      }
      std::sort(all.begin(), all.end());
      std::vector<int> expected(static_cast<std::size_t>(n));
      std::iota(expected.begin(), expected.end(), 0);
      CHECK(all == expected);
      largest = (largest + 1) / 2;
    }
    for (const std::vector<int>& group : levels.back()) CHECK(group.size() <= 3);
  }
  CHECK(halving_levels(64, 3).size() == 5);  // 32, 16, 8, 4, 2
}
