#include "driver/locate/pairing.h"

#include "common/statistics/random.h"
#include "driver/locate/search_record.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
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

/// One round in the making: which units are still free.
class Table {
 public:
  Table(const PairEvidence& evidence, int nunits, Random& random)
      : evidence_(evidence), nunits_(nunits), taken_(nunits), random_(random) {
    round_.one_way = evidence.one_way;
    order_.resize(nunits);
    std::iota(order_.begin(), order_.end(), 0);
    random_.shuffle(std::span(order_));
    for (const EndEvidence& end : evidence.ends) wanted_.insert(unit(end.end));
    for (const LinkEvidence& link : evidence.links) wanted_.insert({unit(link.a), unit(link.b)});
    // Units that must be tested themselves are the last that others may take.
    std::stable_partition(order_.begin(), order_.end(), [&](int u) { return wanted_.count(u) == 0; });
  }

  int unit(int end) const { return end % nunits_; }
  bool is_free(int end) const { return !taken_[unit(end)]; }

  void seat(int a, int b, std::int32_t tested) {
    taken_[unit(a)] = taken_[unit(b)] = 1;
    const bool swap = evidence_.one_way ? a >= nunits_ : a > b;
    round_.pairs.emplace_back(unit(swap ? b : a), unit(swap ? a : b));
    round_.tested.push_back(tested);
  }

  /// With a good partner that it has not met; else with any good one; else not at all.
  void seat_with_good(int end, std::set<int>& met) {
    if (!is_free(end)) return;
    int partner = -1;
    for (const int u : order_) {
      const int other = opposite(end, u);
      if (!is_free(u) || u == unit(end) || !good(other)) continue;
      if (met.count(other) == 0) {
        partner = other;
        break;
      }
      if (partner < 0) partner = other;
    }
    if (partner < 0) return;
    met.insert(partner);
    seat(end, partner, end);
  }

  void seat_link(const LinkEvidence& link) {
    if (is_free(link.a) && is_free(link.b)) seat(link.a, link.b, PairResult::kThePair);
  }

  /// All other units that are good meet each other.
  void fill() {
    int waiting = -1;
    for (const int u : order_) {
      if (!is_free(u) || !good(u) || (evidence_.one_way && !good(nunits_ + u))) continue;
      if (waiting < 0) {
        waiting = u;
      } else {
        seat(waiting, evidence_.one_way ? nunits_ + u : u, PairResult::kNothing);
        waiting = -1;
      }
    }
  }

  PlannedRound done(LocateRound::Kind kind) {
    round_.kind = kind;
    return std::move(round_);
  }

  bool empty() const { return round_.pairs.empty(); }

 private:
  bool good(int end) const { return evidence_.screen.good(end); }
  int opposite(int end, int u) const { return evidence_.one_way && end < nunits_ ? nunits_ + u : u; }

  const PairEvidence& evidence_;
  int nunits_;
  std::vector<char> taken_;
  std::vector<int> order_;
  std::set<int> wanted_;
  Random& random_;
  PlannedRound round_;
};

std::vector<int> ends_in_random_order(std::span<const EndEvidence> ends, Random& random) {
  std::vector<int> order;
  for (const EndEvidence& end : ends) order.push_back(end.end);
  random.shuffle(std::span(order));
  return order;
}

/// Which units each tested end has met.
using Met = std::map<int, std::set<int>>;

Met partners_of(std::span<const EndEvidence> ends, std::span<const PairResult> results, bool one_way, int nunits) {
  Met met;
  for (const EndEvidence& end : ends) met[end.end];
  if (met.empty()) return met;
  for (const PairResult& result : results) {
    if (result.one_way != one_way) continue;
    const int a = first_end(result);
    const int b = second_end(result, nunits);
    if (const auto found = met.find(a); found != met.end()) found->second.insert(b);
    if (const auto found = met.find(b); found != met.end()) found->second.insert(a);
  }
  return met;
}

}  // namespace

int round_robin_rounds(int n) { return n < 2 ? 0 : n - 1 + n % 2; }

Pairs round_robin(int n, int round) {
  // One unit stands still, the others walk around the circle; opposite places meet. If n is odd, nobody is in the place
  // that stands still, and the unit that would meet it sits out.
  const int circle = round_robin_rounds(n);
  Pairs pairs;
  if (n < 2) return pairs;
  pairs.reserve(static_cast<std::size_t>(n / 2));
  if (n % 2 == 0) pairs.push_back(in_order(round % circle, n - 1));
  for (int k = 1; k <= (circle - 1) / 2; ++k)
    pairs.push_back(in_order((round + k) % circle, (round - k + circle) % circle));
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
  Pairs pairs = round_robin(static_cast<int>(label_.size()), order_.at(i));
  for (auto& [a, b] : pairs) {
    const std::pair<int, int> named = in_order(label_[a], label_[b]);
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
    ++degree[a];
    ++degree[b];
  }
  // Those of the busiest units first: they decide how many rounds there must be.
  std::vector<int> order(pairs.size());
  std::iota(order.begin(), order.end(), 0);
  const auto busy = [&](int i) {
    const auto& [a, b] = pairs[i];
    return std::max(degree[a], degree[b]);
  };
  std::ranges::stable_sort(order, [&](int a, int b) { return busy(a) > busy(b); });

  std::vector<std::vector<int>> rounds;
  std::vector<std::vector<char>> taken;  // per round: which units are in it
  for (const int i : order) {
    const auto a = static_cast<std::size_t>(pairs[i].first);
    const auto b = static_cast<std::size_t>(pairs[i].second);
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

std::vector<PlannedRound> plan_confirmations(const PairEvidence& evidence, std::span<const PairResult> results,
                                             int nunits, int times, Random& random) {
  std::vector<PlannedRound> rounds;
  if (evidence.ends.empty() && evidence.links.empty()) return rounds;
  Met met = partners_of(evidence.ends, results, evidence.one_way, nunits);
  std::vector<LinkEvidence> links = evidence.links;
  std::vector<int> order = ends_in_random_order(evidence.ends, random);
  const auto add_round = [&](auto takes_part) {
    Table table(evidence, nunits, random);
    for (const int end : order) {
      if (takes_part(end)) table.seat_with_good(end, met[end]);
    }
    for (const LinkEvidence& link : links) table.seat_link(link);
    if (table.empty()) return;
    table.fill();
    rounds.push_back(table.done(LocateRound::Kind::confirmation));
    random.shuffle(std::span(order));
    random.shuffle(std::span(links));
  };
  const bool some_receive = std::ranges::any_of(order, [&](int end) { return end >= nunits; });
  const bool some_send = !some_receive || std::ranges::any_of(order, [&](int end) { return end < nunits; });
  for (int i = 0; i < times; ++i) {
    if (some_send) add_round([&](int end) { return end < nunits; });
    if (some_receive) add_round([&](int end) { return end >= nunits; });
  }
  return rounds;
}

std::vector<PlannedRound> plan_retests(const PairEvidence& evidence, std::span<const LinkEvidence> links, int nunits,
                                       Random& random) {
  Pairs pairs;
  for (const LinkEvidence& link : links) pairs.emplace_back(link.a % nunits, link.b % nunits);
  std::vector<PlannedRound> rounds;
  for (const std::vector<int>& together : pack_disjoint(pairs)) {
    Table table(evidence, nunits, random);
    for (const int i : together) table.seat_link(links[i]);
    table.fill();
    rounds.push_back(table.done(LocateRound::Kind::retest));
  }
  return rounds;
}

std::vector<PlannedRound> plan_alone(const PairEvidence& evidence, std::span<const EndEvidence> ends,
                                     std::span<const LinkEvidence> links, int nunits, int rounds, Random& random) {
  const auto count = std::min<std::size_t>(ends.size() + links.size(), static_cast<std::size_t>(std::max(rounds, 0)));
  std::vector<Table> tables;
  for (std::size_t i = 0; i < count; ++i) tables.emplace_back(evidence, nunits, random);
  std::vector<PlannedRound> planned;
  if (tables.empty()) return planned;
  const std::vector<int> order = ends_in_random_order(ends, random);
  std::set<int> met;
  for (std::size_t i = 0; i < order.size(); ++i) tables[i % count].seat_with_good(order[i], met);
  for (std::size_t i = 0; i < links.size(); ++i) tables[(order.size() + i) % count].seat_link(links[i]);
  for (Table& table : tables) {
    if (!table.empty()) planned.push_back(table.done(LocateRound::Kind::alone));
  }
  return planned;
}

std::vector<PlannedRound> plan_rails(const PairEvidence& evidence, std::span<const int> units,
                                     std::span<const int> rails, int nunits, Random& random) {
  std::vector<PlannedRound> rounds;
  Met met;
  for (const int rail : rails) {
    Table table(evidence, nunits, random);
    for (const int unit : units) table.seat_with_good(unit, met[unit]);
    table.fill();
    rounds.push_back(table.done(LocateRound::Kind::rail));
    rounds.back().rail = rail;
  }
  return rounds;
}

}  // namespace busbar
