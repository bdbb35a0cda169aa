#pragma once

#include "common/record/culprit.h"
#include "common/statistics/random.h"
#include "driver/locate/pairing.h"
#include "driver/locate/search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// A cluster that exists only as numbers, for the search to be tried on: bw(i -> j) = min(out_i, in_j, link_ij), what
/// shares an uplink shares its bandwidth, everything times normal noise, and now and then a dip.
struct SimulatedCluster {
  explicit SimulatedCluster(int nunits, std::uint64_t seed)
      : n(nunits),
        out(static_cast<std::size_t>(nunits), 1.0),
        in(out),
        comes_and_goes(out.size(), 0.0),
        rack(out.size(), 0),
        random(seed) {}

  int n;
  double noise = 0.03;   ///< standard deviation of a measurement
  double dip_share = 0;  ///< of the measurements that something passing slows to 0.5 .. 0.9
  double scale = 10e9;   ///< [B/s] of a healthy pair
  std::vector<double> out;
  std::vector<double> in;
  std::map<std::pair<int, int>, double> link;  ///< directed
  std::vector<double> comes_and_goes;          ///< share of measurements in which the unit does half
  std::vector<int> rack;
  double between_racks = 1;              ///< of a pair in two racks
  std::map<int, double> uplink_of_rack;  ///< how many pairs with other racks at once a rack can have at full speed
  std::map<std::pair<int, int>, double> rail;  ///< (unit, rail)
  int together = 0;  ///< > 0: groups of so many or more do half where `together_unit` is in them
  int together_unit = -1;
  int dipping_unit = -1;        ///< one of five repetitions dips wherever it takes part
  double dip_sustained = 0.95;  ///< what is sustained where one dips
  double dipping_share = 0;     ///< of all measurements in which some repetition dips so, whoever takes part
  std::vector<char> silent;     ///< units that cannot be measured
  double busy_share = 0;        ///< of the time in which each unit has other work, and does `busy_rate`
  double busy_s = 0;            ///< mean length of a spell of it; lengths are exponential
  double busy_rate = 0.7;
  Random random;

  void slow_unit(int unit, double factor) { out[at(unit)] = in[at(unit)] = factor; }
  void slow_link(int a, int b, double factor) { link[{a, b}] = link[{b, a}] = factor; }

  /// Time between rounds, or of one: spells begin and end.
  void pass(double seconds) {
    if (busy_s <= 0) return;
    if (busy.empty()) {
      for (int unit = 0; unit < n; ++unit) busy.push_back(random.unit() < busy_share ? 1 : 0);
    }
    const double kept = std::exp(-seconds / (busy_s * (1 - busy_share)));
    for (char& unit : busy) unit = random.unit() < busy_share + kept * (unit - busy_share) ? 1 : 0;
  }

  std::vector<GroupMeasurement> measure(const LocateRound& round) {
    std::map<int, int> crossing;  // per rack, how many pairs of this round leave it
    for (const std::vector<int>& group : round.groups) {
      const int a = rack[at(group.front())];
      const int b = rack[at(group.back())];
      if (a != b) ++crossing[a], ++crossing[b];
    }
    std::vector<GroupMeasurement> measured;
    for (const std::vector<int>& group : round.groups) {
      double bandwidth = round.rail >= 0     ? 1
                         : group.size() == 2 ? pair(group[0], group[1], round.one_way)
                                             : ring(group);
      for (const int unit : group) {
        if (round.rail >= 0) bandwidth = std::min(bandwidth, rail_factor(unit, round.rail));
        if (!busy.empty() && busy[at(unit)]) bandwidth = std::min(bandwidth, busy_rate);
        if (comes_and_goes[at(unit)] > 0 && random.unit() < comes_and_goes[at(unit)])
          bandwidth = std::min(bandwidth, 0.5);
        const auto uplink = uplink_of_rack.find(rack[at(unit)]);
        if (uplink != uplink_of_rack.end() && rack[at(group.front())] != rack[at(group.back())]) {
          bandwidth = std::min(bandwidth, uplink->second / crossing[uplink->first]);
        }
      }
      if (dip_share > 0 && random.unit() < dip_share) bandwidth *= 0.5 + 0.4 * random.unit();
      bandwidth *= std::max(0.01, 1 + noise * normal());
      for (const int unit : group) {
        if (!silent.empty() && silent[at(unit)]) bandwidth = 0;
      }
      GroupMeasurement result;
      result.bandwidth = scale * bandwidth;
      result.repetitions = 5;
      result.dips = static_cast<int>(std::count(group.begin(), group.end(), dipping_unit));
      if (dipping_share > 0 && random.unit() < dipping_share) ++result.dips;
      if (result.dips > 0) result.sustained = dip_sustained;
      measured.push_back(result);
    }
    return measured;
  }

  double normal() {  // Box-Muller
    const double u = 1 - random.unit();
    return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * random.unit());
  }

 private:
  std::vector<char> busy;  ///< which units are
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  double way(int from, int to) const {
    double bandwidth = std::min(out[at(from)], in[at(to)]);
    if (const auto found = link.find({from, to}); found != link.end()) bandwidth = std::min(bandwidth, found->second);
    return rack[at(from)] != rack[at(to)] ? bandwidth * between_racks : bandwidth;
  }
  double pair(int a, int b, bool one_way) const { return one_way ? way(a, b) : std::min(way(a, b), way(b, a)); }
  double ring(const std::vector<int>& group) const {
    double bandwidth = 1;
    for (std::size_t i = 0; i < group.size(); ++i) {
      bandwidth = std::min(bandwidth, way(group[i], group[(i + 1) % group.size()]));
    }
    const bool in_it = std::count(group.begin(), group.end(), together_unit) > 0;
    return in_it && together > 0 && static_cast<int>(group.size()) >= together ? bandwidth / 2 : bandwidth;
  }
  double rail_factor(int unit, int index) const {
    const auto found = rail.find({unit, index});
    return found == rail.end() ? 1 : found->second;
  }
};

/// Runs the search to its end on the cluster; a round takes `round_s` of its clock. Throws where it goes on and on.
inline Search searched(SimulatedCluster& cluster, const SearchOptions& options = {}, double round_s = 1) {
  Search search(cluster.n, options);
  double now_s = 0;
  constexpr int kMostRounds = 100'000;
  int rounds = 0;
  while (const auto round = search.next(now_s)) {
    if (++rounds > kMostRounds) throw std::logic_error("a search without an end");
    cluster.pass(round->wait_s + round_s);
    search.add(cluster.measure(*round));
    now_s += round->wait_s + round_s;
  }
  return search;
}

inline std::string words_of_verdict(const LocateVerdict& verdict) {
  std::string text = headline(verdict, {});
  for (const Culprit& culprit : verdict.culprits) text += "\n  " + describe(culprit, {});
  return text;
}

}  // namespace busbar
