// Would catch: an adjective where a count belongs, a name that is not the unit's, a culprit that the sentence hides.

#include "common/record/culprit.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace busbar;
using Side = Culprit::Side;
using What = Culprit::What;

namespace {

const std::vector<std::string> kNames = {"node0", "node1", "node2", "node3"};

Culprit slow_node() {
  Culprit culprit;
  culprit.units = {3};
  culprit.slow_partners = 4;
  culprit.partners = 4;
  culprit.failed_confirmations = 3;
  culprit.confirmations = 3;
  culprit.ratio = 0.111;
  culprit.ratio_error = 0.012;
  return culprit;
}

}  // namespace

TEST_CASE("A slow unit is told with all its counts", "[locate]") {
  Culprit culprit = slow_node();
  CHECK(describe(culprit, kNames) == "node3: 4 of 4 partners slow (0.11 +- 0.01 of the median), 3 of 3 confirmations");
  culprit.side = Side::transmit;
  culprit.slow_rails = {1};
  culprit.alone_ratio = 0.12;
  CHECK(describe(culprit, kNames) ==
        "node3: 4 of 4 partners slow (0.11 +- 0.01 of the median), 3 of 3 confirmations, transmit side, rail 1, 0.12 "
        "alone");
  culprit.side = Side::receive;
  culprit.slow_rails = {1, 3};
  culprit.alone_ratio = 0;
  CHECK(describe(culprit, {}) ==
        "unit 3: 4 of 4 partners slow (0.11 +- 0.01 of the median), 3 of 3 confirmations, receive side, rails 1,3");
}

TEST_CASE("What comes and goes says so", "[locate]") {
  Culprit culprit = slow_node();
  culprit.intermittent = true;
  culprit.slow_partners = 3;
  CHECK(describe(culprit, kNames) ==
        "node3: comes and goes: 3 of 4 partners slow (0.11 +- 0.01 of the median), 3 of 3 confirmations");
  culprit.ratio = 0;
  culprit.over_time = 0.41;
  CHECK(
      describe(culprit, kNames) ==
      "node3: comes and goes: dips in 3 of 4 measurements, 3 of 3 confirmations, 0.41 of what others reach over time");
}

TEST_CASE("A pair, a path, two that cannot be told apart, contention and a group have sentences of their own",
          "[locate]") {
  Culprit culprit = slow_node();
  culprit.units = {1, 2};
  culprit.what = What::link;
  CHECK(describe(culprit, kNames) ==
        "node1 - node2: this pair is slow (0.11 +- 0.01 of the median), 3 of 3 times again, both ends are good with "
        "others");
  culprit.side = Side::transmit;
  CHECK(who(culprit, kNames) == "node1 -> node2");
  culprit.what = What::one_of_two;
  CHECK(describe(culprit, kNames) ==
        "one of these two: node1 or node2: node1 -> node2 reaches 0.11 of node2 -> node1, 3 times");
  culprit.side = Side::unknown;
  CHECK(describe(culprit, kNames) == "one of these two: node1 or node2: 0.11 of what is expected, 3 of 3 times");
  culprit.what = What::contention;
  culprit.alone_ratio = 0.99;
  CHECK(describe(culprit, kNames) ==
        "node1 - node2: slow only while others run (0.11 +- 0.01 of the median), 3 of 3 confirmations: the fabric, not "
        "the pair, 0.99 alone");
  culprit.units = {0, 1, 2, 3, 4};
  CHECK(describe(culprit, kNames).find("5 units together") == 0);
  CHECK(who(culprit, kNames) == "node0, node1, node2 and 2 more");
}

TEST_CASE("The headline is the verdict with the worst culprit, the reason, or what was held", "[locate]") {
  LocateVerdict verdict;
  verdict.threshold = 0.9;
  verdict.rounds = 8;
  verdict.noise = 0.012;
  CHECK(headline(verdict, kNames) == "PASS: all 4 within 0.90 of the median (8 rounds, noise 1.2 %)");
  verdict.outcome = Outcome::inconclusive;
  verdict.reason = "the same pair varies by 12 %";
  CHECK(headline(verdict, kNames) == "INCONCLUSIVE: the same pair varies by 12 %");
  verdict.outcome = Outcome::fail;
  verdict.culprits = {slow_node(), slow_node()};
  CHECK(headline(verdict, kNames) ==
        "FAIL: node3: 4 of 4 partners slow (0.11 +- 0.01 of the median), 3 of 3 confirmations (and 1 more)");
}
