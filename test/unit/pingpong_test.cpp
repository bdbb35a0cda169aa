// What these would catch: a tournament in which two ranks never meet, or one waits for a rank that talks to another (a
// hang); a time that is of two messages where it says one; a row of one pattern that is checked as another's.

#include "collectives/collective.h"
#include "common/base/error.h"
#include "common/measure/plan.h"
#include "null_backend.h"

#include <catch2/catch.hpp>

#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace busbar;

namespace {

Traffic traffic_of(PingpongPattern pattern, int window = 64) {
  Traffic traffic;
  traffic.pattern = pattern;
  traffic.window = window;
  return traffic;
}

const Traffic kLatency = traffic_of(PingpongPattern::latency);
const Traffic kOneway = traffic_of(PingpongPattern::oneway, 5);
const Traffic kBoth = traffic_of(PingpongPattern::both, 7);

Problem problem(int nranks, int round, const Traffic& traffic = kLatency) {
  return {.count = 10, .elem_size = 4, .nranks = nranks, .root = round, .traffic = &traffic};
}

std::vector<std::string> rounds(int nranks) {
  std::vector<std::string> texts;
  for (int round = 0; round < nranks - 1; ++round) texts.push_back(pingpong_pairs(problem(nranks, round)));
  return texts;
}

Plan plan_of(const Config& config, int nranks) {
  return make_plan(config, kPingpong, NullBackend(nranks), kLatency, {1ull << 50, "plenty"});
}

}  // namespace

TEST_CASE("Pingpong's rounds are those of a tournament, written out by hand", "[collectives][pingpong]") {
  CHECK(rounds(2) == std::vector<std::string>{"0-1"});
  CHECK(rounds(4) == std::vector<std::string>{"0-3 1-2", "0-2 1-3", "0-1 2-3"});
  CHECK(rounds(6) ==
        std::vector<std::string>{"0-5 1-4 2-3", "0-2 1-5 3-4", "0-4 1-3 2-5", "0-1 2-4 3-5", "0-3 1-2 4-5"});
  CHECK(rounds(8)[0] == "0-7 1-6 2-5 3-4");
  CHECK(rounds(10)[0] == "0-9 1-8 2-7 3-6 ...");
}

TEST_CASE("In every round of pingpong each rank has a partner, and each pair meets once", "[collectives][pingpong]") {
  for (int n = 2; n <= 40; n += 2) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < n - 1; ++round) {
      for (int rank = 0; rank < n; ++rank) {
        const int peer = pingpong_peer(problem(n, round), rank);
        REQUIRE((peer >= 0 && peer < n && peer != rank));
        REQUIRE(pingpong_peer(problem(n, round), peer) == rank);
        if (rank < peer) CHECK(met.insert({rank, peer}).second);
      }
    }
    CHECK(met.size() == static_cast<std::size_t>(n) * (n - 1) / 2);
  }
}

TEST_CASE("Pingpong in halves pairs rank i with i + n/2", "[collectives][pingpong]") {
  CHECK(pingpong_pairs(problem(2, kHalves)) == "0-1");
  CHECK(pingpong_pairs(problem(6, kHalves)) == "0-3 1-4 2-5");
  for (int rank = 0; rank < 6; ++rank) CHECK(pingpong_peer(problem(6, kHalves), rank) == (rank + 3) % 6);
}

TEST_CASE("Pingpong's blocks, messages and bytes follow the pattern", "[collectives][pingpong]") {
  // 10 elements of 4 B on 4 ranks in halves: 0-2, 1-3.
  using Blocks = std::vector<Block>;
  for (const Traffic* traffic : {&kLatency, &kBoth}) {
    CHECK(kPingpong.expected(problem(4, kHalves, *traffic), 0) == Blocks{{0, 10, 2, 0}});
    CHECK(kPingpong.expected(problem(4, kHalves, *traffic), 3) == Blocks{{0, 10, 1, 0}});
  }
  CHECK(kPingpong.expected(problem(4, kHalves, kOneway), 0).empty());
  CHECK(kPingpong.expected(problem(4, kHalves, kOneway), 3) == Blocks{{0, 10, 1, 0}});
  CHECK(messages_per_call(kPingpong, problem(4, 0)) == 2);
  CHECK(messages_per_call(kPingpong, problem(4, 0, kOneway)) == 5);
  CHECK(messages_per_call(kPingpong, problem(4, 0, kBoth)) == 7);
  CHECK(messages_per_call(kAllReduce, problem(4, 0)) == 1);
  CHECK(kPingpong.algorithm_bytes(problem(4, 0)) == 40);
  CHECK(kPingpong.algorithm_bytes(problem(4, 0, kOneway)) == 40);
  CHECK(kPingpong.algorithm_bytes(problem(4, 0, kBoth)) == 80);
  CHECK(message_bytes(kPingpong, problem(4, 0, kBoth)) == 40);
}

TEST_CASE("A plan of pingpong has a row per round, or one of halves", "[measure][plan][pingpong]") {
  Config config;
  config.minbytes = config.maxbytes = 8;
  const auto roots = [](const Plan& plan) {
    std::vector<int> list;
    for (const Case& c : plan.cases) list.push_back(c.root);
    return list;
  };
  CHECK(roots(plan_of(config, 4)) == std::vector<int>{-1});
  config.pairs = PairChoice::all;
  CHECK(roots(plan_of(config, 4)) == std::vector<int>{0, 1, 2});
  CHECK(roots(plan_of(config, 2)) == std::vector<int>{0});
  // -r is of other benchmarks.
  config.root = 1;
  CHECK(roots(plan_of(config, 4)) == std::vector<int>{0, 1, 2});
  const Plan odd = plan_of(config, 3);
  CHECK(odd.cases.empty());
  REQUIRE(odd.skipped.size() == 1);
  CHECK(odd.skipped[0].reason == "pingpong needs an even number of ranks, so that each has a peer, not 3");
}

TEST_CASE("The options of pingpong are refused for other benchmarks", "[measure][plan][pingpong]") {
  const auto complaint = [](const Config& config) -> std::string {
    try {
      make_plan(config, kAllReduce, NullBackend(2), kLatency, {1ull << 50, "plenty"});
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::bad_config);
      return error.what();
    }
    return "none";
  };
  Config pattern, window, pairs;
  pattern.pattern = PingpongPattern::both;
  window.window = 3;
  pairs.pairs = PairChoice::all;
  CHECK(complaint(pattern) == "--pattern is for pingpong_perf: all_reduce has no pairs of ranks; leave it out");
  CHECK(complaint(window) == "--window is for pingpong_perf: all_reduce has no pairs of ranks; leave it out");
  CHECK(complaint(pairs) == "--pairs is for pingpong_perf: all_reduce has no pairs of ranks; leave it out");
  CHECK(complaint(Config{}) == "none");
}

TEST_CASE("Plans of pingpong that differ in pattern or window have other digests", "[measure][plan][pingpong]") {
  Config config;
  const auto digest_of = [&](const Traffic& traffic) {
    return digest(make_plan(config, kPingpong, NullBackend(2), traffic, {1ull << 50, "plenty"}), config);
  };
  const Traffic other_window = traffic_of(PingpongPattern::both, 8);
  CHECK(digest_of(kBoth) == digest_of(traffic_of(PingpongPattern::both, 7)));
  CHECK(digest_of(kBoth) != digest_of(other_window));
  CHECK(digest_of(kBoth) != digest_of(traffic_of(PingpongPattern::oneway, 7)));
}
