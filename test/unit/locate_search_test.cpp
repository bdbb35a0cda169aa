// Would catch: a kind of fault that is not named, or named as another; a healthy cluster that is blamed; contention
// that is taken for a bad cable; half a cluster blamed for being a group; a search that does not end.

#include "driver/locate/search.h"
#include "simulated_cluster.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

using namespace busbar;
using Kind = LocateRound::Kind;
using Side = Culprit::Side;
using What = Culprit::What;

namespace {

/// The only culprit; fails where there is none or more.
Culprit only(const LocateVerdict& verdict) {
  INFO(words_of_verdict(verdict));
  REQUIRE(verdict.culprits.size() == 1);
  return verdict.culprits.front();
}

SearchOptions full() {
  SearchOptions options;
  options.full = true;
  return options;
}

}  // namespace

TEST_CASE("A healthy cluster passes after its matchings", "[locate]") {
  for (const int n : {3, 4, 7, 8, 9, 64}) {
    SimulatedCluster cluster(n, 1);
    const LocateVerdict verdict = searched(cluster).finding();
    INFO(n << ": " << words_of_verdict(verdict));
    CHECK(verdict.outcome == Outcome::pass);
    CHECK(verdict.median_bandwidth == Approx(cluster.scale).epsilon(0.03));
    CHECK(verdict.reason.empty());
  }
}

TEST_CASE("A slow unit is named with its counts, in seven rounds and those of calibration and alone", "[locate]") {
  SimulatedCluster cluster(64, 3);
  cluster.slow_unit(31, 0.5);
  const LocateVerdict verdict = searched(cluster).finding();
  const Culprit culprit = only(verdict);
  CHECK(verdict.outcome == Outcome::fail);
  CHECK(culprit.what == What::unit);
  CHECK(culprit.units == std::vector<int>{31});
  CHECK(culprit.slow_partners == 4);
  CHECK(culprit.partners == 4);
  CHECK(culprit.failed_confirmations == 3);
  CHECK(culprit.confirmations == 3);
  CHECK(culprit.ratio == Approx(0.5).epsilon(0.05));
  CHECK(culprit.ratio_error < 0.05);
  CHECK_FALSE(culprit.intermittent);
  CHECK(verdict.rounds - verdict.calibration_rounds - verdict.alone_rounds - verdict.later_rounds == 7);
  CHECK(verdict.noise == Approx(0.03).epsilon(0.3));
  CHECK(verdict.expected_false < 1e-6);
}

TEST_CASE("A unit that is a little slow is a warning", "[locate]") {
  SimulatedCluster cluster(64, 3);
  cluster.noise = 0.01;
  cluster.slow_unit(5, 0.85);
  const LocateVerdict verdict = searched(cluster).finding();
  CHECK(only(verdict).units == std::vector<int>{5});
  CHECK(verdict.outcome == Outcome::warn);
}

TEST_CASE("Confirmations use different good partners, and load the fabric with all others", "[locate]") {
  SimulatedCluster cluster(32, 4);
  cluster.slow_unit(7, 0.5);
  cluster.slow_unit(9, 0.5);
  SearchOptions options;
  options.looks = 1;
  Search search(cluster.n, options);
  std::map<int, std::set<int>> partners;
  int confirmations = 0;
  int rounds = 0;
  while (const auto round = search.next()) {
    REQUIRE(++rounds < 1000);
    std::set<int> seen;
    for (const std::vector<int>& group : round->groups) {
      REQUIRE(group.size() == 2);
      for (const int unit : group) CHECK(seen.insert(unit).second);
      if (round->kind != Kind::confirmation) continue;
      for (const int suspect : {7, 9}) {
        if (group[0] == suspect) CHECK(partners[suspect].insert(group[1]).second);
        if (group[1] == suspect) CHECK(partners[suspect].insert(group[0]).second);
      }
    }
    if (round->kind == Kind::confirmation) {
      ++confirmations;
      CHECK(round->groups.size() == 16);
    }
    if (round->kind == Kind::alone) CHECK(round->groups.size() == 1);
    search.add(cluster.measure(*round));
  }
  CHECK(confirmations == 3);
  CHECK(partners[7].size() == 3);
  CHECK(partners[7].count(9) == 0);
  CHECK(partners[9].size() == 3);
}

TEST_CASE("Equal seeds and equal measurements give equal rounds", "[locate]") {
  const auto rounds = [](std::uint64_t seed) {
    SimulatedCluster cluster(33, 5);
    cluster.slow_unit(2, 0.6);
    SearchOptions options;
    options.seed = seed;
    Search search(cluster.n, options);
    std::vector<std::vector<std::vector<int>>> all;
    while (const auto round = search.next()) {
      REQUIRE(all.size() < 1000);
      all.push_back(round->groups);
      search.add(cluster.measure(*round));
    }
    return all;
  };
  CHECK(rounds(1) == rounds(1));
  CHECK(rounds(1) != rounds(2));
}

TEST_CASE("A single slow pair is found by --full, and neither of its ends is blamed", "[locate]") {
  for (const double dips : {0.0, 0.05}) {
    SimulatedCluster cluster(64, 6);
    cluster.dip_share = dips;
    cluster.slow_link(11, 40, 0.6);
    const LocateVerdict verdict = searched(cluster, full()).finding();
    const Culprit culprit = only(verdict);
    CHECK(culprit.what == What::link);
    CHECK(culprit.units == std::vector<int>{11, 40});
    CHECK(culprit.ratio == Approx(0.6).epsilon(0.1));
    CHECK(culprit.failed_confirmations == culprit.confirmations);
    CHECK(culprit.confirmations >= 2);
    CHECK(verdict.outcome == Outcome::fail);
  }
}

TEST_CASE("--full finds slow units and a slow pair between healthy ones at once", "[locate]") {
  SimulatedCluster cluster(40, 7);
  cluster.slow_unit(3, 0.6);
  cluster.slow_unit(30, 0.7);
  cluster.slow_link(11, 20, 0.5);
  const LocateVerdict verdict = searched(cluster, full()).finding();
  INFO(words_of_verdict(verdict));
  REQUIRE(verdict.culprits.size() == 3);
  CHECK(verdict.culprits[0].units == std::vector<int>{11, 20});
  CHECK(verdict.culprits[1].units == std::vector<int>{3});
  CHECK(verdict.culprits[2].units == std::vector<int>{30});
}

TEST_CASE("--full measures every pair, and the matrix holds them", "[locate]") {
  SimulatedCluster cluster(9, 7);
  const std::vector<PairCell> cells = searched(cluster, full()).matrix();
  CHECK(cells.size() == 36);
  for (const PairCell& cell : cells) {
    CHECK(cell.a < cell.b);
    CHECK(cell.bandwidth == Approx(cluster.scale).epsilon(0.15));
    CHECK(cell.measurements >= 1);
  }
}

TEST_CASE("--direction says which way a unit is slow", "[locate]") {
  SearchOptions options;
  options.direction = true;
  for (const int n : {5, 32}) {
    INFO(n);
    for (const Side side : {Side::transmit, Side::receive, Side::both}) {
      SimulatedCluster cluster(n, 8);
      if (side != Side::receive) cluster.out[2] = 0.6;
      if (side != Side::transmit) cluster.in[2] = 0.6;
      const LocateVerdict verdict = searched(cluster, options).finding();
      const Culprit culprit = only(verdict);
      CHECK(culprit.what == What::unit);
      CHECK(culprit.units == std::vector<int>{2});
      CHECK(culprit.side == side);
    }
  }
}

TEST_CASE("A path that is slow one way is a pair with a direction", "[locate]") {
  SearchOptions options;
  options.direction = true;
  SimulatedCluster cluster(6, 9);
  cluster.link[{4, 1}] = 0.5;
  const Culprit culprit = only(searched(cluster, options).finding());
  CHECK(culprit.what == What::link);
  CHECK(culprit.units == std::vector<int>{4, 1});
  CHECK(culprit.side == Side::transmit);
}

TEST_CASE("--rail says which local index is slow, each time with another partner", "[locate]") {
  SearchOptions options;
  options.rails = 4;
  SimulatedCluster cluster(16, 10);
  cluster.slow_unit(6, 0.7);
  cluster.rail[{6, 2}] = 0.3;
  const Culprit culprit = only(searched(cluster, options).finding());
  CHECK(culprit.units == std::vector<int>{6});
  CHECK(culprit.slow_rails == std::vector<int>{2});
  CHECK(culprit.rail == 2);
}

TEST_CASE("Hosts with more ranks than a small number holds keep their rails apart", "[locate]") {
  SearchOptions options;
  options.rails = 160;
  SimulatedCluster cluster(16, 10);
  cluster.slow_unit(6, 0.7);
  cluster.rail[{6, 150}] = 0.3;
  CHECK(only(searched(cluster, options).finding()).slow_rails == std::vector<int>{150});
}

TEST_CASE("--halving screens by groups and confirms by pairs", "[locate]") {
  SearchOptions options;
  options.halving = true;
  SimulatedCluster cluster(64, 11);
  cluster.slow_unit(6, 0.6);
  cluster.slow_unit(50, 0.6);
  const LocateVerdict verdict = searched(cluster, options).finding();
  INFO(words_of_verdict(verdict));
  REQUIRE(verdict.culprits.size() == 2);
  CHECK(verdict.culprits[0].units.front() + verdict.culprits[1].units.front() == 56);
}

TEST_CASE("Where many measurements are slow no group is blamed for being slow four times", "[locate]") {
  SearchOptions options;
  options.halving = true;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedCluster cluster(64, seed);
    cluster.dip_share = 0.4;
    options.seed = seed;
    const LocateVerdict verdict = searched(cluster, options).finding();
    INFO(words_of_verdict(verdict));
    CHECK(verdict.culprits.empty());
  }
}

TEST_CASE("A link at a tenth is named although the same pair varies by a fifth", "[locate]") {
  for (const bool halving : {false, true}) {
    SearchOptions options;
    options.halving = halving;
    SimulatedCluster cluster(8, 21);
    cluster.noise = 0.2;
    cluster.slow_unit(3, 0.1);
    const Culprit culprit = only(searched(cluster, options).finding());
    CHECK(culprit.units == std::vector<int>{3});
    CHECK(culprit.outcome == Outcome::fail);
  }
}

TEST_CASE("What is slow only for large groups is nobody's fault alone", "[locate]") {
  SearchOptions options;
  options.halving = true;
  SimulatedCluster cluster(64, 12);
  cluster.together = 9;  // one of the two halves' switches, say: see below
  cluster.together_unit = 17;
  const LocateVerdict verdict = searched(cluster, options).finding();
  INFO(words_of_verdict(verdict));
  REQUIRE_FALSE(verdict.culprits.empty());
  for (const Culprit& culprit : verdict.culprits) {
    CHECK(culprit.what == What::contention);
    CHECK(std::count(culprit.units.begin(), culprit.units.end(), 17) == 1);
  }
}

TEST_CASE("Slow together and fast alone is contention, not a bad unit", "[locate]") {
  SimulatedCluster cluster(32, 13);
  for (const std::size_t unit : {5U, 9U}) cluster.rack[unit] = 1;
  cluster.uplink_of_rack[1] = 1;  // two pairs on it: half each
  const LocateVerdict verdict = searched(cluster).finding();
  INFO(words_of_verdict(verdict));
  REQUIRE(verdict.culprits.size() == 2);
  for (const Culprit& culprit : verdict.culprits) {
    CHECK(culprit.what == What::contention);
    CHECK(culprit.alone_ratio > 0.9);
    CHECK(culprit.ratio < 0.6);
  }
}

TEST_CASE("A unit that comes and goes is named as such", "[locate]") {
  SimulatedCluster cluster(64, 14);
  cluster.comes_and_goes[20] = 0.7;
  int named = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SearchOptions options;
    options.looks = 1;
    options.seed = seed;
    for (const Culprit& culprit : searched(cluster, options).finding().culprits) {
      CHECK(culprit.units == std::vector<int>{20});
      named += culprit.intermittent || culprit.what == What::unit;
    }
  }
  CHECK(named >= 25);
}

TEST_CASE("Dips within measurements that otherwise look good are told", "[locate]") {
  SimulatedCluster cluster(32, 14);
  cluster.dipping_unit = 20;
  const LocateVerdict verdict = searched(cluster).finding();
  const Culprit culprit = only(verdict);
  CHECK(culprit.units == std::vector<int>{20});
  CHECK(culprit.intermittent);
  CHECK(verdict.outcome == Outcome::warn);
  CHECK(culprit.over_time == Approx(0.95).margin(0.01));
}

TEST_CASE("Dips that persist and cost more than a slow link may fail without a soak", "[locate]") {
  for (const int n : {4, 8, 64}) {
    SimulatedCluster cluster(n, 14);
    cluster.dipping_unit = 2;
    cluster.dip_sustained = 0.5;
    cluster.dipping_share = 0.02;
    const LocateVerdict verdict = searched(cluster).finding();
    const Culprit culprit = only(verdict);
    CHECK(culprit.units == std::vector<int>{2});
    CHECK(culprit.intermittent);
    CHECK(culprit.failed_confirmations == culprit.confirmations);
    CHECK(culprit.over_time == Approx(0.5).margin(0.03));
    CHECK(verdict.outcome == Outcome::fail);
  }
}

TEST_CASE("Whoever often meets a unit that dips is not blamed with it", "[locate]") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SimulatedCluster cluster(8, seed);
    cluster.dipping_unit = 5;
    cluster.dip_sustained = 0.5;
    cluster.dipping_share = 0.05;
    SearchOptions options;
    options.seed = seed;
    CHECK(only(searched(cluster, options).finding()).units == std::vector<int>{5});
  }
}

TEST_CASE("Where everybody's measurements dip nobody is to blame", "[locate]") {
  for (const int n : {8, 64}) {
    SimulatedCluster cluster(n, 14);
    cluster.dip_sustained = 0.5;
    cluster.dipping_share = 0.3;
    CHECK(searched(cluster).finding().outcome == Outcome::pass);
  }
}

TEST_CASE("A soak finds a unit that is slow one time in ten", "[locate]") {
  SearchOptions options;
  options.soak_s = 400;
  SimulatedCluster cluster(16, 15);
  cluster.dip_share = 0.02;
  cluster.comes_and_goes[3] = 0.1;
  const LocateVerdict verdict = searched(cluster, options, 1).finding();
  const Culprit culprit = only(verdict);
  CHECK(culprit.units == std::vector<int>{3});
  CHECK(culprit.intermittent);
  CHECK(culprit.confirmations == 5);
  CHECK(culprit.failed_confirmations >= 3);
  CHECK(verdict.rounds >= 400);

  SimulatedCluster healthy(16, 16);
  healthy.dip_share = 0.05;
  CHECK(searched(healthy, options, 1).finding().culprits.empty());
}

TEST_CASE("Two groups of different speed are said, not blamed", "[locate]") {
  for (const int slow : {6, 8, 10}) {
    SimulatedCluster cluster(16, 17);
    for (int unit = 0; unit < slow; ++unit) cluster.slow_unit(unit, 0.6);
    const LocateVerdict verdict = searched(cluster).finding();
    INFO(slow << ": " << words_of_verdict(verdict));
    CHECK(verdict.outcome == Outcome::inconclusive);
    CHECK(verdict.culprits.empty());
    CHECK(verdict.reason.find("two groups") != std::string::npos);
  }
}

TEST_CASE("Two racks with a slower fabric between them are said, not blamed", "[locate]") {
  for (const int n : {16, 64}) {
    SimulatedCluster cluster(n, 18);
    for (int unit = 0; unit < n / 2; ++unit) cluster.rack[static_cast<std::size_t>(unit)] = 1;
    cluster.between_racks = 0.5;
    const LocateVerdict verdict = searched(cluster).finding();
    INFO(words_of_verdict(verdict));
    CHECK(verdict.outcome == Outcome::inconclusive);
    CHECK(verdict.culprits.empty());
  }
}

TEST_CASE("What cannot be told from the noise is inconclusive, what can is named all the same", "[locate]") {
  SimulatedCluster cluster(64, 19);
  cluster.noise = 0.16;
  const LocateVerdict healthy = searched(cluster).finding();
  INFO(words_of_verdict(healthy));
  CHECK(healthy.outcome == Outcome::inconclusive);
  CHECK(healthy.culprits.empty());
  cluster.slow_unit(8, 0.1);
  const LocateVerdict verdict = searched(cluster).finding();
  CHECK(only(verdict).units == std::vector<int>{8});
  CHECK(verdict.outcome == Outcome::fail);
}

TEST_CASE("Everything slow is seen against what is expected", "[locate]") {
  SimulatedCluster cluster(16, 20);
  SearchOptions options;
  options.expected_bandwidth = 2 * cluster.scale;
  const LocateVerdict verdict = searched(cluster, options).finding();
  CHECK(verdict.outcome == Outcome::inconclusive);
  CHECK(verdict.reason.find("all are slow") != std::string::npos);
}

TEST_CASE("A unit that cannot be measured is not slow, and not passed over", "[locate]") {
  SimulatedCluster cluster(16, 21);
  cluster.silent.assign(16, 0);
  cluster.silent[4] = 1;
  const LocateVerdict verdict = searched(cluster).finding();
  CHECK(verdict.outcome == Outcome::inconclusive);
  CHECK(verdict.reason.find("1 of 16 units could not be measured") != std::string::npos);
  CHECK(verdict.culprits.empty());
  cluster.silent.assign(16, 1);
  CHECK(searched(cluster).finding().outcome == Outcome::inconclusive);
}

TEST_CASE("Odd values and missing ones break nothing", "[locate]") {
  for (const double value :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e-300, 1e300}) {
    for (const int n : {1, 2, 3, 9}) {
      SearchOptions options;
      options.direction = options.full = true;
      options.rails = 2;
      Search search(n, options);
      int rounds = 0;
      while (const auto round = search.next()) {
        std::vector<GroupMeasurement> measured(round->groups.size());
        for (GroupMeasurement& one : measured) one.bandwidth = value;
        if (!measured.empty()) measured.pop_back();  // and one too few
        search.add(measured);
        REQUIRE(++rounds < 1000);
      }
      CHECK(search.finding().outcome != Outcome::fail);
    }
  }
}

TEST_CASE("The plan foresees the rounds", "[locate]") {
  CHECK(Search(1, {}).planned_rounds() == 0);
  CHECK(Search(3, {}).planned_rounds() == 3 * 3 + 3);
  CHECK(Search(6, {}).planned_rounds() == 3 * 5 + 3);
  CHECK(Search(7, {}).planned_rounds() == 2 * 7 + 3);
  CHECK(Search(64, {}).planned_rounds() == 1 + 4 + 3);
  CHECK(Search(8, {}).planned_rounds() == 4 + 4 + 3);
  CHECK(Search(4096, {}).planned_rounds() == 1 + 4 + 3);
  CHECK(Search(64, full()).planned_rounds() == 1 + 63 + 3);
  SearchOptions options;
  options.direction = true;
  CHECK(Search(64, options).planned_rounds() == 1 + 4 + 8 + 9);
}

TEST_CASE("A host that is busy for a while is a warning, one that is slow in three looks fails", "[locate]") {
  int false_fails = 0;
  int warned = 0;
  int found = 0;
  constexpr int kTrials = 200;
  for (int trial = 0; trial < kTrials; ++trial) {
    SearchOptions options;
    options.seed = static_cast<std::uint64_t>(trial) + 1;
    SimulatedCluster cluster(64, options.seed);
    cluster.busy_share = 0.02;
    cluster.busy_s = trial % 2 == 0 ? 3 : 30;
    const Outcome outcome = searched(cluster, options).finding().outcome;
    false_fails += outcome == Outcome::fail ? 1 : 0;
    warned += outcome == Outcome::warn ? 1 : 0;
    SimulatedCluster slow(64, options.seed);
    slow.busy_share = 0.02;
    slow.busy_s = cluster.busy_s;
    slow.slow_unit(31, 0.7);
    for (const Culprit& c : searched(slow, options).finding().culprits) {
      if (c.outcome == Outcome::fail && c.units == std::vector<int>{31}) ++found;
    }
  }
  CHECK(false_fails <= 0.02 * kTrials);  // a FAIL was in every second
  CHECK(warned >= 0.2 * kTrials);
  CHECK(found >= 0.95 * kTrials);
}

TEST_CASE("Where there is no time for further looks, who is slow is named with a warning", "[locate]") {
  for (const auto& [looks, may_wait, outcome] :
       {std::tuple(3, true, Outcome::fail), std::tuple(3, false, Outcome::warn), std::tuple(1, false, Outcome::fail)}) {
    SimulatedCluster cluster(16, 5);
    cluster.slow_unit(3, 0.5);
    SearchOptions options;
    options.looks = looks;
    options.may_wait = may_wait;
    const LocateVerdict verdict = searched(cluster, options).finding();
    CHECK(only(verdict).units == std::vector<int>{3});
    CHECK(verdict.outcome == outcome);
    CHECK(only(verdict).looks == (looks == 3 && may_wait ? 3 : 1));
  }
}

TEST_CASE("A further look says whom it is for and how long to wait, and a healthy cluster has none", "[locate]") {
  SimulatedCluster cluster(16, 5);
  cluster.slow_unit(3, 0.5);
  Search search(cluster.n, {});
  std::vector<double> waits;
  while (const auto round = search.next()) {
    if (round->wait_s > 0) {
      waits.push_back(round->wait_s);
      CHECK(round->again == std::vector<int>{3});
      CHECK(round->look == static_cast<int>(waits.size()));
    }
    search.add(cluster.measure(*round));
  }
  CHECK(waits == std::vector<double>{60, 120});
  SimulatedCluster healthy(16, 6);
  const LocateVerdict verdict = searched(healthy).finding();
  CHECK(verdict.outcome == Outcome::pass);
  CHECK(verdict.later_rounds == 0);
}

TEST_CASE("A steadily slow unit fails in three looks, however few the units", "[locate]") {
  for (const int n : {3, 4, 5, 7, 8}) {
    int found = 0;
    constexpr int kTrials = 100;
    for (int trial = 0; trial < kTrials; ++trial) {
      SearchOptions options;
      options.seed = static_cast<std::uint64_t>(trial) + 1;
      SimulatedCluster cluster(n, options.seed);
      cluster.slow_unit(1, 0.7);
      const LocateVerdict verdict = searched(cluster, options).finding();
      found += verdict.outcome == Outcome::fail && only(verdict).units == std::vector<int>{1} ? 1 : 0;
    }
    CAPTURE(n);
    CHECK(found >= 95);
  }
}
