#include "driver/locate/pairing.h"

#include "common/statistics/random.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace busbar {
namespace {

std::vector<int> shuffled(int n, Random& random) {
  std::vector<int> values(static_cast<std::size_t>(std::max(n, 0)));
  std::iota(values.begin(), values.end(), 0);
  random.shuffle(std::span(values));
  return values;
}

std::pair<int, int> in_order(int a, int b) { return {std::min(a, b), std::max(a, b)}; }

}  // namespace

int round_robin_rounds(int n) { return n < 2 ? 0 : n - 1 + n % 2; }

Pairs round_robin(int n, int round) {
  // One unit stands still, the others walk around the circle; opposite places meet. Where n is odd the one that stands
  // still is not there, and who would meet it sits out.
  const int circle = round_robin_rounds(n);
  Pairs pairs;
  if (n < 2) return pairs;
  pairs.reserve(static_cast<std::size_t>(n / 2));
  if (n % 2 == 0) pairs.push_back(in_order(round % circle, n - 1));
  for (int k = 1; k <= (circle - 1) / 2; ++k) {
    pairs.push_back(in_order((round + k) % circle, (round - k + circle) % circle));
  }
  return pairs;
}

Pairs random_matching(int n, std::uint64_t seed) {
  Random random(seed);
  const std::vector<int> order = shuffled(n, random);
  Pairs pairs;
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) pairs.push_back(in_order(order[i], order[i + 1]));
  return pairs;
}

DisjointMatchings::DisjointMatchings(int n, std::uint64_t seed) {
  Random random(seed);
  label_ = shuffled(n, random);
  order_ = shuffled(round_robin_rounds(n), random);
}

int DisjointMatchings::size() const { return static_cast<int>(order_.size()); }

Pairs DisjointMatchings::at(int i) const {
  Pairs pairs = round_robin(static_cast<int>(label_.size()), order_.at(static_cast<std::size_t>(i)));
  for (auto& [a, b] : pairs) {
    const std::pair<int, int> named =
        in_order(label_[static_cast<std::size_t>(a)], label_[static_cast<std::size_t>(b)]);
    a = named.first;
    b = named.second;
  }
  return pairs;
}

std::vector<std::vector<int>> pack_disjoint(const Pairs& pairs) {
  int n = 0;
  for (const auto& [a, b] : pairs) n = std::max({n, a + 1, b + 1});
  std::vector<int> degree(static_cast<std::size_t>(n));
  for (const auto& [a, b] : pairs) {
    ++degree[static_cast<std::size_t>(a)];
    ++degree[static_cast<std::size_t>(b)];
  }
  // Those of the busiest units first: they decide how many rounds there must be.
  std::vector<int> order(pairs.size());
  std::iota(order.begin(), order.end(), 0);
  const auto busy = [&](int i) {
    const auto& [a, b] = pairs[static_cast<std::size_t>(i)];
    return std::max(degree[static_cast<std::size_t>(a)], degree[static_cast<std::size_t>(b)]);
  };
  std::ranges::stable_sort(order, [&](int a, int b) { return busy(a) > busy(b); });

  std::vector<std::vector<int>> rounds;
  std::vector<std::vector<char>> taken;  // per round: which units are in it
  for (const int i : order) {
    const auto a = static_cast<std::size_t>(pairs[static_cast<std::size_t>(i)].first);
    const auto b = static_cast<std::size_t>(pairs[static_cast<std::size_t>(i)].second);
    std::size_t round = 0;
    while (round < rounds.size() && (taken[round][a] || taken[round][b])) ++round;
    if (round == rounds.size()) {
      rounds.emplace_back();
      taken.emplace_back(static_cast<std::size_t>(n), char{0});
    }
    rounds[round].push_back(i);
    taken[round][a] = taken[round][b] = 1;
  }
  return rounds;
}

std::vector<std::vector<std::vector<int>>> halving_levels(int n, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::vector<int>> groups{shuffled(n, random)};
  std::vector<std::vector<std::vector<int>>> levels;
  const auto splits = [](const std::vector<int>& group) { return group.size() > 3; };
  while (std::ranges::any_of(groups, splits)) {
    std::vector<std::vector<int>> halves;
    for (const std::vector<int>& group : groups) {
      if (!splits(group)) {
        halves.push_back(group);
        continue;
      }
      const auto middle = group.begin() + static_cast<std::ptrdiff_t>((group.size() + 1) / 2);
      halves.emplace_back(group.begin(), middle);
      halves.emplace_back(middle, group.end());
    }
    groups = std::move(halves);
    levels.push_back(groups);
  }
  if (levels.empty() && n >= 2) levels.push_back(groups);
  for (auto& level : levels) {
    for (auto& group : level) std::ranges::sort(group);
  }
  return levels;
}

}  // namespace busbar
