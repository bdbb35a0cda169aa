// Would catch: a healthy one of few hosts that is blamed. Below 8 every possible fault of one unit or one pair is
// tried, without noise and with it; what can be said at all was worked out by hand:
//   1: nothing. 2: only that something is slow where a speed is expected, or one direction against the other.
//   3: one slow unit spoils two pairs of three, one slow pair one of them: told apart by the two others.
//   two slow units of three spoil all pairs: nobody is left to be held against, unless a speed is expected.

#include "driver/locate/search.h"
#include "simulated_cluster.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace busbar;
using What = Culprit::What;

namespace {

void check_only(const LocateVerdict& verdict, What what, const std::vector<int>& units) {
  INFO(words_of_verdict(verdict));
  REQUIRE(verdict.culprits.size() == 1);
  CHECK(verdict.culprits.front().what == what);
  CHECK(verdict.culprits.front().units == units);
  CHECK(verdict.outcome == Outcome::fail);
}

}  // namespace

TEST_CASE("Each slow unit of 3 to 7 is named, with and without noise", "[locate]") {
  for (int n = 3; n <= 7; ++n) {
    for (int unit = 0; unit < n; ++unit) {
      for (const double noise : {0.0, 0.02}) {
        INFO(n << " units, " << unit << " slow, noise " << noise);
        SimulatedCluster cluster(n, static_cast<std::uint64_t>(unit));
        cluster.noise = noise;
        cluster.slow_unit(unit, 0.5);
        check_only(searched(cluster).finding(), What::unit, {unit});
      }
    }
  }
}

TEST_CASE("Each slow pair of 3 to 7 units is named, and none of its ends", "[locate]") {
  for (int n = 3; n <= 7; ++n) {
    for (int a = 0; a < n; ++a) {
      for (int b = a + 1; b < n; ++b) {
        for (const double noise : {0.0, 0.02}) {
          INFO(n << " units, " << a << " - " << b << " slow, noise " << noise);
          SimulatedCluster cluster(n, static_cast<std::uint64_t>(a * n + b));
          cluster.noise = noise;
          cluster.slow_link(a, b, 0.5);
          check_only(searched(cluster).finding(), What::link, {a, b});
        }
      }
    }
  }
}

TEST_CASE("Two slow units of 6 and 7 are both named", "[locate]") {
  for (const int n : {6, 7}) {
    for (int a = 0; a < n; ++a) {
      for (int b = a + 1; b < n; ++b) {
        INFO(n << " units, " << a << " and " << b);
        SimulatedCluster cluster(n, static_cast<std::uint64_t>(a * n + b));
        cluster.slow_unit(a, 0.5);
        cluster.slow_unit(b, 0.6);
        const LocateVerdict verdict = searched(cluster).finding();
        INFO(words_of_verdict(verdict));
        REQUIRE(verdict.culprits.size() == 2);
        CHECK(verdict.culprits[0].units == std::vector<int>{a});  // worst first
        CHECK(verdict.culprits[1].units == std::vector<int>{b});
      }
    }
  }
}

TEST_CASE("Half of few units or more are never named", "[locate]") {
  for (int n = 4; n <= 7; ++n) {
    for (int slow = (n + 1) / 2; slow < n - 1; ++slow) {
      INFO(n << " units, " << slow << " slow");
      SimulatedCluster cluster(n, 5);
      for (int unit = 0; unit < slow; ++unit) cluster.slow_unit(unit, 0.6);
      const LocateVerdict verdict = searched(cluster).finding();
      INFO(words_of_verdict(verdict));
      CHECK(verdict.culprits.empty());
      CHECK(verdict.outcome == Outcome::inconclusive);
    }
  }
}

TEST_CASE("With all but one slow every pair is: only an expected speed tells", "[locate]") {
  SimulatedCluster cluster(3, 6);
  cluster.noise = 0;
  cluster.slow_unit(0, 0.5);
  cluster.slow_unit(1, 0.5);
  CHECK(searched(cluster).finding().outcome == Outcome::pass);
  SearchOptions options;
  options.expected_bandwidth = cluster.scale;
  const LocateVerdict verdict = searched(cluster, options).finding();
  CHECK(verdict.outcome == Outcome::inconclusive);
  CHECK(verdict.reason.find("0.50 of what is expected") != std::string::npos);
}

TEST_CASE("One unit has nothing to be compared with", "[locate]") {
  SimulatedCluster cluster(1, 1);
  const LocateVerdict verdict = searched(cluster).finding();
  CHECK(verdict.outcome == Outcome::skip);
  CHECK(verdict.rounds == 0);
  CHECK_FALSE(verdict.reason.empty());
}

TEST_CASE("Of two units it is one of these two, where anything can be said", "[locate]") {
  SimulatedCluster healthy(2, 1);
  CHECK(searched(healthy).finding().outcome == Outcome::skip);
  SearchOptions options;
  options.expected_bandwidth = healthy.scale;
  CHECK(searched(healthy, options).finding().outcome == Outcome::pass);

  SimulatedCluster slow(2, 1);
  slow.slow_unit(1, 0.5);
  check_only(searched(slow, options).finding(), What::one_of_two, {0, 1});
  CHECK(searched(slow).finding().outcome == Outcome::skip);  // nothing says that it should be faster

  SimulatedCluster one_way(2, 1);
  one_way.out[1] = 0.5;
  const LocateVerdict verdict = searched(one_way).finding();
  check_only(verdict, What::one_of_two, {1, 0});
  CHECK(verdict.culprits.front().side == Culprit::Side::transmit);

  SimulatedCluster noisy(2, 1);
  noisy.noise = 0.2;
  CHECK(searched(noisy).finding().outcome == Outcome::inconclusive);
}

TEST_CASE("Among few units dips blame nobody", "[locate]") {
  int blamed = 0;
  for (int n = 3; n <= 7; ++n) {
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      SimulatedCluster cluster(n, 1000 + seed);
      cluster.dip_share = 0.05;
      SearchOptions options;
      options.seed = seed;
      blamed += static_cast<int>(searched(cluster, options).finding().culprits.size());
    }
  }
  CHECK(blamed <= 4);  // of 10000 units: 0.001 each would be 10
}
