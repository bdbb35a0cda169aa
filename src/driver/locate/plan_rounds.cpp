#include "driver/locate/plan_rounds.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>

namespace busbar {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// One round in the making: which units are still free.
class Table {
 public:
  Table(const PairEvidence& evidence, int nunits, Random& random)
      : evidence_(evidence), nunits_(nunits), taken_(at(nunits)), random_(random) {
    round_.one_way = evidence.one_way;
    order_.resize(at(nunits));
    std::iota(order_.begin(), order_.end(), 0);
    random_.shuffle(std::span(order_));
    for (const EndEvidence& end : evidence.ends) wanted_.insert(unit(end.end));
    for (const LinkEvidence& link : evidence.links) wanted_.insert({unit(link.a), unit(link.b)});
    // Those that are to be tested themselves are the last that others may take.
    std::stable_partition(order_.begin(), order_.end(), [&](int u) { return wanted_.count(u) == 0; });
  }

  int unit(int end) const { return end % nunits_; }
  bool is_free(int end) const { return !taken_[at(unit(end))]; }

  void seat(int a, int b, std::int32_t tested) {
    taken_[at(unit(a))] = taken_[at(unit(b))] = 1;
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
  bool good(int end) const { return evidence_.screen.state[at(end)] == Screen::State::good; }
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

/// Whom each end that is tested has met.
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
    for (const int i : together) table.seat_link(links[at(i)]);
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
