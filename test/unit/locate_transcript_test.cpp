// Would catch: a search that plans other rounds, counts otherwise or says something else of the same cluster. Whole
// searches, written down and read once; what they must find is asserted by itself elsewhere. Clusters without noise are
// not searched by luck: units of speed 1, what is slow at 0.5, so that ratios can be seen to be right.

#include "common/record/culprit.h"
#include "driver/locate/search.h"
#include "simulated_cluster.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>
#include <string_view>

using namespace busbar;

namespace {

constexpr std::array<std::string_view, 9> kKinds{"calibration", "matching", "confirmation", "full", "retest",
                                                 "direction",   "rail",     "halving",      "alone"};

std::string round_text(const LocateRound& round) {
  std::string text(kKinds.at(static_cast<std::size_t>(round.kind)));
  if (round.rail >= 0) text += fmt::format(" {}", round.rail);
  if (round.wait_s > 0)
    text += fmt::format(", look {} after {} s for {}", round.look, round.wait_s, fmt::join(round.again, ","));
  text += ":";
  for (const std::vector<int>& group : round.groups)
    text += fmt::format(" {}", fmt::join(group, round.one_way ? ">" : "-"));
  return text;
}

std::string culprit_text(const Culprit& c) {
  return fmt::format(
      "{}\n  {} {} {}, side {}, rail {} of [{}]; slow with {} of {}, {} of {} times again, in {} of {} looks; dips {}\n"
      "  at {:.3f} +- {:.3f}, alone {:.3f}, over time {:.3f}\n",
      describe(c, {}), name(c.outcome), name(c.what), fmt::join(c.units, ","), name(c.side), c.rail,
      fmt::join(c.slow_rails, ","), c.slow_partners, c.partners, c.failed_confirmations, c.confirmations, c.looks_slow,
      c.looks, c.intermittent, c.ratio, c.ratio_error, c.alone_ratio, c.over_time);
}

/// Every round, and all that is said in the end.
std::string transcript(SimulatedCluster cluster, const SearchOptions& options) {
  Search search(cluster.n, options);
  std::string text = fmt::format("{} rounds planned\n", search.planned_rounds());
  double now_s = 0;
  while (const auto round = search.next(now_s)) {
    text += round_text(*round) + "\n";
    cluster.pass(round->wait_s + 1);
    search.add(cluster.measure(*round));
    now_s += round->wait_s + 1;
  }
  const LocateVerdict v = search.finding();
  text += headline(v, {}) + "\n";
  for (const Culprit& culprit : v.culprits) text += culprit_text(culprit);
  text += fmt::format(
      "reason: {}\n{} rounds: {} of calibration, {} alone, {} later; noise {:.3f}, threshold {:.3f}, {:.2f} GB/s\n",
      v.reason, v.rounds, v.calibration_rounds, v.alone_rounds, v.later_rounds, v.noise, v.threshold,
      v.median_bandwidth / 1e9);
  text += fmt::format("slow {:.3f}, by chance {:.2g}\n", v.slow_share, v.expected_false);
  if (cluster.n > 8) return text;
  for (const PairCell& cell : search.matrix()) {
    text += fmt::format("{}{}{} {:.2f} of {}, ", cell.a, cell.one_way ? ">" : "-", cell.b, cell.bandwidth / 1e9,
                        cell.measurements);
  }
  return text + "\n";
}

SimulatedCluster cluster_of(int n) {
  SimulatedCluster cluster(n, 1);
  cluster.noise = 0;
  return cluster;
}

}  // namespace

TEST_CASE("A search among few units, round by round", "[locate]") {
  SimulatedCluster cluster = cluster_of(5);
  cluster.slow_unit(3, 0.5);
  CHECK(transcript(cluster, {}) == R"(18 rounds planned
full: 0-4 2-3
full: 1-3 0-2
full: 2-4 0-1
full: 0-3 1-4
full: 1-2 3-4
calibration: 0-4 2-3
calibration: 1-3 0-2
calibration: 2-4 0-1
calibration: 0-3 1-4
calibration: 1-2 3-4
calibration: 0-4 2-3
calibration: 1-3 0-2
calibration: 2-4 0-1
calibration: 0-3 1-4
calibration: 1-2 3-4
confirmation: 1-3 0-4
confirmation: 1-3 0-2
confirmation: 1-3 0-2
alone: 3-4
confirmation, look 1 after 60 s for 3: 3-4 1-2
confirmation: 3-4 0-1
confirmation: 2-3 0-1
confirmation, look 2 after 120 s for 3: 3-4 1-2
confirmation: 1-3 0-4
confirmation: 2-3 0-4
FAIL: unit 3: 4 of 4 partners slow (0.50 of the median), 3 of 3 confirmations, 0.50 alone, slow in 3 of 3 looks
unit 3: 4 of 4 partners slow (0.50 of the median), 3 of 3 confirmations, 0.50 alone, slow in 3 of 3 looks
  FAIL unit 3, side unknown, rail -1 of []; slow with 4 of 4, 3 of 3 times again, in 3 of 3 looks; dips false
  at 0.500 +- 0.000, alone 0.500, over time 0.000
reason: 
25 rounds: 10 of calibration, 1 alone, 6 later; noise 0.000, threshold 0.900, 10.00 GB/s
slow 0.050, by chance 2.3e-07
0-1 10.00 of 5, 0-2 10.00 of 5, 0-3 5.00 of 3, 0-4 10.00 of 6, 1-2 10.00 of 5, 1-3 5.00 of 7, 1-4 10.00 of 3, 2-3 5.00 of 5, 2-4 10.00 of 3, 3-4 5.00 of 6, 
)");
}

TEST_CASE("A search among 8 units, round by round", "[locate]") {
  SimulatedCluster cluster = cluster_of(8);
  cluster.slow_unit(3, 0.5);
  CHECK(transcript(cluster, {}) == R"(11 rounds planned
matching: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
matching: 1-5 4-7 0-3 2-6
matching: 1-4 0-5 2-7 3-6
matching: 1-7 3-5 4-6 0-2
confirmation: 2-3 1-5 0-7 4-6
confirmation: 1-3 4-6 2-5 0-7
confirmation: 3-7 2-4 5-6 0-1
alone: 3-6
confirmation, look 1 after 60 s for 3: 3-5 4-6 0-7 1-2
confirmation: 1-3 5-7 0-6 2-4
confirmation: 1-3 0-7 4-6 2-5
confirmation, look 2 after 120 s for 3: 3-5 1-6 2-4 0-7
confirmation: 3-5 0-4 1-6 2-7
confirmation: 1-3 2-6 4-5 0-7
FAIL: unit 3: 4 of 4 partners slow (0.50 of the median), 3 of 3 confirmations, 0.50 alone, slow in 3 of 3 looks
unit 3: 4 of 4 partners slow (0.50 of the median), 3 of 3 confirmations, 0.50 alone, slow in 3 of 3 looks
  FAIL unit 3, side unknown, rail -1 of []; slow with 4 of 4, 3 of 3 times again, in 3 of 3 looks; dips false
  at 0.500 +- 0.000, alone 0.500, over time 0.000
reason: 
18 rounds: 4 of calibration, 1 alone, 6 later; noise 0.000, threshold 0.900, 10.00 GB/s
slow 0.023, by chance 3.3e-09
0-1 10.00 of 1, 0-2 10.00 of 1, 0-3 5.00 of 1, 0-4 10.00 of 1, 0-5 10.00 of 1, 0-6 10.00 of 6, 0-7 10.00 of 6, 1-2 10.00 of 6, 1-3 5.00 of 4, 1-4 10.00 of 1, 1-5 10.00 of 2, 1-6 10.00 of 2, 1-7 10.00 of 1, 2-3 5.00 of 1, 2-4 10.00 of 3, 2-5 10.00 of 2, 2-6 10.00 of 2, 2-7 10.00 of 2, 3-4 5.00 of 5, 3-5 5.00 of 4, 3-6 5.00 of 1, 3-7 5.00 of 1, 4-5 10.00 of 1, 4-6 10.00 of 5, 4-7 10.00 of 1, 5-6 10.00 of 1, 5-7 10.00 of 6, 
)");
}

TEST_CASE("A search of every pair, round by round", "[locate]") {
  SearchOptions options;
  options.full = true;
  SimulatedCluster cluster = cluster_of(8);
  cluster.slow_link(2, 5, 0.5);
  cluster.slow_link(2, 6, 0.85);
  CHECK(transcript(cluster, options) == R"(14 rounds planned
full: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
full: 1-5 4-7 0-3 2-6
full: 1-4 0-5 2-7 3-6
full: 1-7 3-5 4-6 0-2
full: 1-3 6-7 2-5 0-4
full: 0-1 2-4 5-6 3-7
full: 1-6 2-3 0-7 4-5
confirmation: 2-3 1-7 0-4 5-6
confirmation: 2-7 1-4 0-3 5-6
confirmation: 0-2 1-4 3-7 5-6
retest: 2-5 4-7 0-1 3-6
retest: 2-6 3-7 0-4 1-5
retest: 2-5 0-3 1-7 4-6
retest: 2-6 1-4 0-3 5-7
alone: 2-5
alone: 2-6
confirmation, look 1 after 60 s for 2,5: 2-5 1-4 0-6 3-7
confirmation: 2-5 1-4 0-3 6-7
confirmation: 2-5 3-4 0-6 1-7
confirmation, look 2 after 120 s for 2,5: 2-5 0-1 4-6 3-7
confirmation: 2-5 1-7 3-4 0-6
confirmation: 2-5 0-1 3-6 4-7
FAIL: unit 2 - unit 5: this pair is slow (0.50 of the median), 2 of 2 times again, both ends are good with others, 0.50 alone, slow in 3 of 3 looks (and 1 more)
unit 2 - unit 5: this pair is slow (0.50 of the median), 2 of 2 times again, both ends are good with others, 0.50 alone, slow in 3 of 3 looks
  FAIL link 2,5, side unknown, rail -1 of []; slow with 1 of 1, 2 of 2 times again, in 3 of 3 looks; dips false
  at 0.500 +- 0.000, alone 0.500, over time 0.000
unit 2 - unit 6: this pair is slow (0.85 +- 0.00 of the median), 2 of 2 times again, both ends are good with others, 0.85 alone
  WARN link 2,6, side unknown, rail -1 of []; slow with 1 of 1, 2 of 2 times again, in 1 of 1 looks; dips false
  at 0.850 +- 0.000, alone 0.850, over time 0.000
reason: 
26 rounds: 4 of calibration, 2 alone, 6 later; noise 0.000, threshold 0.900, 10.00 GB/s
slow 0.012, by chance 5.9e-11
0-1 10.00 of 4, 0-2 10.00 of 2, 0-3 10.00 of 5, 0-4 10.00 of 3, 0-5 10.00 of 1, 0-6 10.00 of 8, 0-7 10.00 of 1, 1-2 10.00 of 5, 1-3 10.00 of 1, 1-4 10.00 of 6, 1-5 10.00 of 2, 1-6 10.00 of 1, 1-7 10.00 of 5, 2-3 10.00 of 2, 2-4 10.00 of 1, 2-5 5.00 of 9, 2-6 8.50 of 3, 2-7 10.00 of 2, 3-4 10.00 of 7, 3-5 10.00 of 1, 3-6 10.00 of 3, 3-7 10.00 of 5, 4-5 10.00 of 1, 4-6 10.00 of 3, 4-7 10.00 of 3, 5-6 10.00 of 4, 5-7 10.00 of 6, 6-7 10.00 of 2, 
)");
}

TEST_CASE("A search with directions, round by round", "[locate]") {
  SearchOptions options;
  options.direction = true;
  options.looks = 1;
  SimulatedCluster cluster = cluster_of(8);
  cluster.in[6] = 0.5;
  CHECK(transcript(cluster, options) == R"(25 rounds planned
matching: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
matching: 1-5 4-7 0-3 2-6
matching: 1-4 0-5 2-7 3-6
matching: 1-7 3-5 4-6 0-2
direction: 1>2 0>6 3>4 5>7
direction: 2>1 6>0 4>3 7>5
direction: 1>5 4>7 0>3 2>6
direction: 5>1 7>4 3>0 6>2
direction: 1>4 0>5 2>7 3>6
direction: 4>1 5>0 7>2 6>3
direction: 1>7 3>5 4>6 0>2
direction: 7>1 5>3 6>4 2>0
confirmation: 5-6 2-3 1-7 0-4
confirmation: 1-6 4-5 2-3 0-7
confirmation: 6-7 2-4 3-5 0-1
confirmation: 1>6 0>3 7>5 2>4
confirmation: 5>6 4>0 7>1 3>2
confirmation: 7>6 1>5 0>3 4>2
alone: 1-6
alone: 5>6
FAIL: unit 6: 4 of 4 partners slow (0.50 of the median), 3 of 3 confirmations, receive side, 0.50 alone
unit 6: 4 of 4 partners slow (0.50 of the median), 3 of 3 confirmations, receive side, 0.50 alone
  FAIL unit 6, side receive, rail -1 of []; slow with 4 of 4, 3 of 3 times again, in 1 of 1 looks; dips false
  at 0.500 +- 0.000, alone 0.500, over time 0.000
reason: 
24 rounds: 4 of calibration, 2 alone, 0 later; noise 0.000, threshold 0.900, 10.00 GB/s
slow 0.023, by chance 3.3e-09
0-1 10.00 of 1, 0-2 10.00 of 1, 0-3 10.00 of 1, 0-4 10.00 of 1, 0-5 10.00 of 1, 0-6 5.00 of 5, 0-7 10.00 of 1, 1-2 10.00 of 5, 1-4 10.00 of 1, 1-5 10.00 of 1, 1-6 5.00 of 1, 1-7 10.00 of 2, 2-3 10.00 of 2, 2-4 10.00 of 1, 2-6 5.00 of 1, 2-7 10.00 of 1, 3-4 10.00 of 5, 3-5 10.00 of 2, 3-6 5.00 of 1, 4-5 10.00 of 1, 4-6 5.00 of 1, 4-7 10.00 of 1, 5-6 5.00 of 1, 5-7 10.00 of 5, 6-7 5.00 of 1, 0>2 10.00 of 1, 0>3 10.00 of 3, 0>5 10.00 of 1, 0>6 5.00 of 1, 1>2 10.00 of 1, 1>4 10.00 of 1, 1>5 10.00 of 2, 1>6 5.00 of 1, 1>7 10.00 of 1, 2>0 10.00 of 1, 2>1 10.00 of 1, 2>4 10.00 of 1, 2>6 5.00 of 1, 2>7 10.00 of 1, 3>0 10.00 of 1, 3>2 10.00 of 1, 3>4 10.00 of 1, 3>5 10.00 of 1, 3>6 5.00 of 1, 4>0 10.00 of 1, 4>1 10.00 of 1, 4>2 10.00 of 1, 4>3 10.00 of 1, 4>6 5.00 of 1, 4>7 10.00 of 1, 5>0 10.00 of 1, 5>1 10.00 of 1, 5>3 10.00 of 1, 5>6 5.00 of 1, 5>7 10.00 of 1, 6>0 10.00 of 1, 6>2 10.00 of 1, 6>3 10.00 of 1, 6>4 10.00 of 1, 7>1 10.00 of 2, 7>2 10.00 of 1, 7>4 10.00 of 1, 7>5 10.00 of 2, 7>6 5.00 of 1, 
)");
}

TEST_CASE("A search with rails, round by round", "[locate]") {
  SearchOptions options;
  options.rails = 3;
  SimulatedCluster cluster = cluster_of(8);
  cluster.slow_unit(6, 0.5);
  cluster.rail[{6, 1}] = 0.3;
  CHECK(transcript(cluster, options) == R"(14 rounds planned
matching: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
matching: 1-5 4-7 0-3 2-6
matching: 1-4 0-5 2-7 3-6
matching: 1-7 3-5 4-6 0-2
confirmation: 5-6 2-3 1-7 0-4
confirmation: 1-6 4-5 2-3 0-7
confirmation: 6-7 2-4 3-5 0-1
alone: 0-6
rail 0: 5-6 0-4 1-7 2-3
rail 1: 1-6 5-7 0-3 2-4
rail 2: 0-6 1-7 3-4 2-5
rail 1: 5-6 1-4 0-2 3-7
confirmation, look 1 after 60 s for 6: 5-6 0-4 1-3 2-7
confirmation: 1-6 2-3 4-5 0-7
confirmation: 0-6 1-2 5-7 3-4
confirmation, look 2 after 120 s for 6: 4-6 0-7 1-5 2-3
confirmation: 5-6 1-3 2-7 0-4
confirmation: 1-6 0-3 4-5 2-7
FAIL: unit 6: 4 of 4 partners slow (0.50 of the median), 3 of 3 confirmations, rail 1, 0.50 alone, slow in 3 of 3 looks
unit 6: 4 of 4 partners slow (0.50 of the median), 3 of 3 confirmations, rail 1, 0.50 alone, slow in 3 of 3 looks
  FAIL unit 6, side unknown, rail 1 of [1]; slow with 4 of 4, 3 of 3 times again, in 3 of 3 looks; dips false
  at 0.500 +- 0.000, alone 0.500, over time 0.000
reason: 
22 rounds: 4 of calibration, 1 alone, 6 later; noise 0.000, threshold 0.900, 10.00 GB/s
slow 0.023, by chance 3.3e-09
0-1 10.00 of 1, 0-2 10.00 of 1, 0-3 10.00 of 2, 0-4 10.00 of 3, 0-5 10.00 of 1, 0-6 5.00 of 6, 0-7 10.00 of 3, 1-2 10.00 of 6, 1-3 10.00 of 2, 1-4 10.00 of 1, 1-5 10.00 of 2, 1-6 5.00 of 3, 1-7 10.00 of 2, 2-3 10.00 of 4, 2-4 10.00 of 1, 2-6 5.00 of 1, 2-7 10.00 of 4, 3-4 10.00 of 6, 3-5 10.00 of 2, 3-6 5.00 of 1, 4-5 10.00 of 3, 4-6 5.00 of 2, 4-7 10.00 of 1, 5-6 5.00 of 3, 5-7 10.00 of 6, 6-7 5.00 of 1, 
)");
}

TEST_CASE("A search by groups, round by round", "[locate]") {
  SearchOptions options;
  options.halving = true;
  SimulatedCluster cluster = cluster_of(16);
  cluster.slow_unit(9, 0.5);
  CHECK(transcript(cluster, options) == R"(8 rounds planned
halving: 9-12 5-15 8-10 0-1 13-14 4-6 3-7 2-11
calibration: 9-12 5-15 8-10 0-1 13-14 4-6 3-7 2-11
calibration: 9-12 5-15 8-10 0-1 13-14 4-6 3-7 2-11
halving: 0-1-5-8-9-10-12-15 2-3-4-6-7-11-13-14
halving: 5-9-12-15 0-1-8-10 4-6-13-14 2-3-7-11
confirmation: 6-12 9-11 1-13 5-8 2-10 3-4 0-15 7-14
confirmation: 10-12 7-9 2-6 1-13 0-4 3-14 5-11 8-15
confirmation: 1-9 0-12 3-7 6-13 2-15 5-8 4-14 10-11
alone: 9-15
confirmation, look 1 after 60 s for 9: 0-9 1-3 2-5 6-15 8-11 7-14 4-10
confirmation: 6-9 8-13 3-15 4-11 5-10 0-2 1-14
confirmation: 9-13 3-5 10-11 0-7 6-15 1-14 2-8
confirmation, look 2 after 120 s for 9: 8-9 0-6 2-5 4-11 10-13 7-14 1-15
confirmation: 4-9 7-15 3-8 1-10 5-13 11-14 0-6
confirmation: 9-14 4-15 0-5 7-10 2-8 11-13 3-6
FAIL: unit 9: 1 of 1 partners slow (0.50 of the median), 3 of 3 confirmations, 0.50 alone, slow in 3 of 3 looks
unit 9: 1 of 1 partners slow (0.50 of the median), 3 of 3 confirmations, 0.50 alone, slow in 3 of 3 looks
  FAIL unit 9, side unknown, rail -1 of []; slow with 1 of 1, 3 of 3 times again, in 3 of 3 looks; dips false
  at 0.500 +- 0.000, alone 0.500, over time 0.000
reason: 
15 rounds: 2 of calibration, 1 alone, 6 later; noise 0.000, threshold 0.900, 10.00 GB/s
slow 0.019, by chance 2.4e-09
)");
}

TEST_CASE("A search beside contention and dips, round by round", "[locate]") {
  SimulatedCluster cluster = cluster_of(16);
  for (const std::size_t unit : {5U, 9U}) cluster.rack[unit] = 1;
  cluster.uplink_of_rack[1] = 1;  // two pairs on it: half each
  cluster.dipping_unit = 2;
  cluster.dip_sustained = 0.7;
  SearchOptions options;
  options.looks = 1;
  CHECK(transcript(cluster, options) == R"(9 rounds planned
matching: 1-2 6-15 0-13 4-7 10-11 5-8 3-12 9-14
calibration: 1-2 6-15 0-13 4-7 10-11 5-8 3-12 9-14
calibration: 1-2 6-15 0-13 4-7 10-11 5-8 3-12 9-14
matching: 1-14 9-12 3-5 8-10 7-11 0-4 13-15 2-6
matching: 1-7 0-10 5-15 2-12 6-14 9-13 3-4 8-11
matching: 1-11 4-8 3-13 6-9 2-14 12-15 0-5 7-10
confirmation: 5-6 9-11 2-13 1-12 8-10 3-4 0-15 7-14
confirmation: 4-9 5-13 2-8 3-12 0-10 1-11 6-14 7-15
confirmation: 5-11 2-4 0-9 6-12 13-15 1-10 7-8 3-14
alone: 9-11
alone: 4-5
FAIL: unit 2: comes and goes: dips in 9 of 9 measurements, 3 of 3 confirmations, 0.70 of what others reach over time (and 2 more)
unit 2: comes and goes: dips in 9 of 9 measurements, 3 of 3 confirmations, 0.70 of what others reach over time
  FAIL unit 2, side unknown, rail -1 of []; slow with 9 of 9, 3 of 3 times again, in 1 of 1 looks; dips true
  at 0.000 +- 0.000, alone 0.000, over time 0.700
unit 5: slow only while others run (0.50 of the median), 3 of 3 confirmations: the fabric, not the unit, 1.00 alone
  FAIL contention 5, side unknown, rail -1 of []; slow with 4 of 4, 3 of 3 times again, in 1 of 1 looks; dips false
  at 0.500 +- 0.000, alone 1.000, over time 0.000
unit 9: slow only while others run (0.50 of the median), 3 of 3 confirmations: the fabric, not the unit, 1.00 alone
  FAIL contention 9, side unknown, rail -1 of []; slow with 4 of 4, 3 of 3 times again, in 1 of 1 looks; dips false
  at 0.500 +- 0.000, alone 1.000, over time 0.000
reason: 
11 rounds: 2 of calibration, 2 alone, 0 later; noise 0.000, threshold 0.900, 10.00 GB/s
slow 0.014, by chance 3.4e-10
)");
}

TEST_CASE("A search on a noisy cluster, round by round", "[locate]") {
  SimulatedCluster cluster(16, 1);
  cluster.slow_unit(4, 0.7);
  CHECK(transcript(cluster, {}) == R"(9 rounds planned
matching: 1-2 6-15 0-13 4-7 10-11 5-8 3-12 9-14
calibration: 1-2 6-15 0-13 4-7 10-11 5-8 3-12 9-14
calibration: 1-2 6-15 0-13 4-7 10-11 5-8 3-12 9-14
matching: 1-14 9-12 3-5 8-10 7-11 0-4 13-15 2-6
matching: 1-7 0-10 5-15 2-12 6-14 9-13 3-4 8-11
matching: 1-11 4-8 3-13 6-9 2-14 12-15 0-5 7-10
confirmation: 1-4 3-7 2-6 8-15 5-13 9-11 10-12 0-14
confirmation: 4-13 9-15 2-10 3-14 6-8 11-12 5-7 0-1
confirmation: 4-15 3-11 7-9 8-10 13-14 1-2 0-6 5-12
alone: 0-4
confirmation, look 1 after 60 s for 4: 4-14 0-1 6-7 2-10 9-11 5-13 8-12 3-15
confirmation: 4-10 3-12 11-15 0-6 1-14 2-8 5-13 7-9
confirmation: 4-6 0-15 9-10 7-13 11-12 1-8 5-14 2-3
confirmation, look 2 after 120 s for 4: 2-4 6-11 0-7 3-5 12-14 9-15 1-13 8-10
confirmation: 4-11 0-14 2-6 10-13 12-15 3-8 1-9 5-7
confirmation: 4-12 11-14 10-15 0-1 7-9 2-13 3-8 5-6
FAIL: unit 4: 4 of 4 partners slow (0.70 +- 0.02 of the median), 3 of 3 confirmations, 0.68 alone, slow in 3 of 3 looks
unit 4: 4 of 4 partners slow (0.70 +- 0.02 of the median), 3 of 3 confirmations, 0.68 alone, slow in 3 of 3 looks
  FAIL unit 4, side unknown, rail -1 of []; slow with 4 of 4, 3 of 3 times again, in 3 of 3 looks; dips false
  at 0.700 +- 0.021, alone 0.676, over time 0.000
reason: 
16 rounds: 2 of calibration, 1 alone, 6 later; noise 0.022, threshold 0.900, 10.00 GB/s
slow 0.010, by chance 4.8e-11
)");
}

TEST_CASE("A search of every pair of a noisy cluster, round by round", "[locate]") {
  SimulatedCluster cluster(9, 2);
  cluster.slow_link(2, 5, 0.5);
  cluster.slow_link(1, 7, 0.6);
  SearchOptions options;
  options.full = true;
  options.looks = 1;
  CHECK(transcript(cluster, options) == R"(16 rounds planned
full: 7-8 2-4 0-1 3-6
calibration: 7-8 2-4 0-1 3-6
calibration: 7-8 2-4 0-1 3-6
calibration: 7-8 2-4 0-1 3-6
calibration: 7-8 2-4 0-1 3-6
full: 0-7 5-6 3-8 1-2
full: 0-3 1-4 2-7 5-8
full: 4-5 0-8 2-6 1-3
full: 4-6 3-7 1-5 2-8
full: 1-6 0-2 4-8 5-7
full: 2-5 1-7 3-4 0-6
full: 1-8 3-5 6-7 0-4
full: 2-3 6-8 0-5 4-7
confirmation: 1-7 2-5 3-8 0-4
confirmation: 2-5 1-7 4-6 0-8
confirmation: 2-5 1-7 0-6 3-8
alone: 1-7
alone: 2-5
FAIL: unit 2 - unit 5: this pair is slow (0.50 +- 0.01 of the median), 3 of 3 times again, both ends are good with others, 0.53 alone (and 1 more)
unit 2 - unit 5: this pair is slow (0.50 +- 0.01 of the median), 3 of 3 times again, both ends are good with others, 0.53 alone
  FAIL link 2,5, side unknown, rail -1 of []; slow with 1 of 1, 3 of 3 times again, in 1 of 1 looks; dips false
  at 0.496 +- 0.013, alone 0.525, over time 0.000
unit 1 - unit 7: this pair is slow (0.59 +- 0.01 of the median), 3 of 3 times again, both ends are good with others, 0.58 alone
  FAIL link 1,7, side unknown, rail -1 of []; slow with 1 of 1, 3 of 3 times again, in 1 of 1 looks; dips false
  at 0.591 +- 0.014, alone 0.583, over time 0.000
reason: 
18 rounds: 4 of calibration, 2 alone, 0 later; noise 0.028, threshold 0.887, 10.02 GB/s
slow 0.058, by chance 1e-06
)");
}

TEST_CASE("A search where much is slow by chance, round by round", "[locate]") {
  SimulatedCluster cluster(12, 3);
  cluster.dip_share = 0.35;
  cluster.slow_unit(7, 0.6);
  SearchOptions options;
  options.looks = 1;
  CHECK(transcript(cluster, options) == R"(10 rounds planned
matching: 1-9 0-6 2-10 4-5 8-11 3-7
calibration: 1-9 0-6 2-10 4-5 8-11 3-7
calibration: 1-9 0-6 2-10 4-5 8-11 3-7
calibration: 1-9 0-6 2-10 4-5 8-11 3-7
matching: 7-9 3-11 4-8 5-10 0-2 1-6
matching: 4-9 10-11 0-7 1-3 6-8 2-5
matching: 2-9 5-6 1-8 0-3 7-10 4-11
confirmation: 0-7 2-4 5-8 3-9 1-10 6-11
confirmation: 0-7 2-4 8-10 3-11 1-9 5-6
confirmation: 0-7 5-9 6-10 2-11 1-4 3-8
INCONCLUSIVE: the same pair varies by 12 %: only what is below 0.56 of the median can be detected
reason: the same pair varies by 12 %: only what is below 0.56 of the median can be detected
10 rounds: 3 of calibration, 0 alone, 0 later; noise 0.117, threshold 0.556, 9.03 GB/s
slow 0.062, by chance 2.1e-06
)");
}

TEST_CASE("A search that soaks, round by round", "[locate]") {
  SimulatedCluster cluster(8, 4);
  cluster.comes_and_goes[5] = 0.5;
  SearchOptions options;
  options.soak_s = 20;
  options.looks = 1;
  CHECK(transcript(cluster, options) == R"(11 rounds planned
matching: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
calibration: 1-2 0-6 3-4 5-7
matching: 1-5 4-7 0-3 2-6
matching: 1-4 0-5 2-7 3-6
matching: 1-7 3-5 4-6 0-2
confirmation: 3-5 1-2 0-7 4-6
confirmation: 3-5 4-6 1-2 0-7
confirmation: 3-5 4-7 2-6 0-1
matching: 3-6 1-7 0-5 2-4
matching: 1-5 0-7 3-6 2-4
matching: 2-4 0-3 5-6 1-7
matching: 0-2 4-6 1-7 3-5
matching: 0-6 1-3 4-7 2-5
matching: 0-4 3-7 1-6 2-5
matching: 3-5 1-7 4-6 0-2
matching: 1-7 0-5 2-6 3-4
matching: 4-6 5-7 1-2 0-3
FAIL: unit 5: comes and goes: 3 of 9 partners slow (0.50 of the median), 3 of 5 confirmations
unit 5: comes and goes: 3 of 9 partners slow (0.50 of the median), 3 of 5 confirmations
  FAIL unit 5, side unknown, rail -1 of []; slow with 3 of 9, 3 of 5 times again, in 0 of 0 looks; dips true
  at 0.497 +- 0.000, alone 0.000, over time 0.000
reason: 
20 rounds: 4 of calibration, 0 alone, 0 later; noise 0.042, threshold 0.832, 9.99 GB/s
slow 0.058, by chance 8.5e-07
0-1 9.97 of 1, 0-2 9.71 of 1, 0-3 9.58 of 1, 0-5 10.02 of 1, 0-6 9.98 of 5, 0-7 9.86 of 2, 1-2 9.89 of 7, 1-4 10.15 of 1, 1-5 9.67 of 1, 1-7 10.38 of 1, 2-6 9.82 of 2, 2-7 9.99 of 1, 3-4 10.18 of 5, 3-5 7.31 of 4, 3-6 10.46 of 1, 4-6 9.81 of 3, 4-7 9.82 of 2, 5-7 10.09 of 5, 
)");
}

TEST_CASE("Two units and none", "[locate]") {
  SearchOptions options;
  options.expected_bandwidth = 30e9;
  options.looks = 1;
  CHECK(transcript(cluster_of(2), options) == R"(11 rounds planned
full: 0-1
calibration: 0-1
calibration: 0-1
calibration: 0-1
calibration: 0-1
direction: 0>1
direction: 1>0
direction: 0>1
direction: 1>0
direction: 0>1
direction: 1>0
FAIL: one of these two: unit 0 or unit 1: 0.33 of what is expected, 5 of 5 times
one of these two: unit 0 or unit 1: 0.33 of what is expected, 5 of 5 times
  FAIL one_of_two 0,1, side unknown, rail -1 of []; slow with 1 of 1, 5 of 5 times again, in 0 of 0 looks; dips false
  at 0.333 +- 0.000, alone 0.000, over time 0.000
reason: 
11 rounds: 4 of calibration, 0 alone, 0 later; noise 0.000, threshold 0.900, 10.00 GB/s
slow 0.000, by chance 0
0-1 10.00 of 5, 0>1 10.00 of 3, 1>0 10.00 of 3, 
)");
  CHECK(transcript(cluster_of(1), {}) == R"(0 rounds planned
SKIP: there is only one unit, and nothing to compare it with: mpirun -n N, on two hosts or more
reason: there is only one unit, and nothing to compare it with: mpirun -n N, on two hosts or more
0 rounds: 0 of calibration, 0 alone, 0 later; noise 0.000, threshold 0.900, 0.00 GB/s
slow 0.000, by chance 0

)");
}
