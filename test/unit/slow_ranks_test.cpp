// Catches: a slow rank that passes, a healthy one that is blamed for noise, a fast device that makes slower models look
// sick, and lateness that is the scheduler's doing.

#include "driver/locate/slow_ranks.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace busbar;

namespace {

constexpr double kSpin = 0.3e-3;

/// Ranks on two hosts that differ by 2 %, with no order in their arrivals.
std::vector<ProbedRank> healthy(int n, std::uint64_t seed = 1, const std::string& device = "host memory") {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(1, 0.02);
  std::exponential_distribution<double> late(1 / 20e-6);
  std::vector<ProbedRank> ranks(n);
  for (int r = 0; r < n; ++r) {
    ranks[r].host = r < n / 2 ? "node0" : "node1";
    ranks[r].device = device;
    for (auto& set : ranks[r].solo_s) {
      for (double& time_s : set) time_s = kSpin * noise(random);
    }
    for (CoreTime& time : ranks[r].core) time = {0.2, 0.198 * (1 - 0.01 * std::abs(noise(random) - 1)), 0.001};
    ranks[r].work_s = 1e-3;
    ranks[r].work_cpu_s = 0.99e-3;
    for (int i = 0; i < 200; ++i) ranks[r].entry_s.push_back(i * 5e-3 + 1e-3 + late(random));
  }
  return ranks;
}

}  // namespace

TEST_CASE("healthy ranks are not blamed", "[locate][ranks]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto ranks = healthy(16, seed);
    CHECK(judge_solo(ranks, 0.9, 0.8, false).outcome == Outcome::pass);
    CHECK(judge_core(ranks, 0.9, 0.8, false).outcome == Outcome::pass);
    CHECK(judge_arrival(ranks, 1e-6, false).outcome == Outcome::pass);
  }
}

TEST_CASE("a rank whose copies are slow in two sets of three is named with its probe", "[locate][ranks]") {
  auto ranks = healthy(8);
  const auto to_host = static_cast<std::size_t>(SoloProbe::to_host);
  ranks[5].solo_s[0][to_host] = 2 * kSpin;
  CHECK(judge_solo(ranks, 0.9, 0.8, false).outcome == Outcome::pass);  // once is chance
  ranks[5].solo_s[2][to_host] = 2 * kSpin;
  const SlowRankVerdict found = judge_solo(ranks, 0.9, 0.8, false);
  CHECK(found.outcome == Outcome::fail);
  REQUIRE(found.slow.size() == 1);
  CHECK(found.slow[0].rank == 5);
  CHECK(found.slow[0].slow_sets == 2);
  CHECK(found.slow[0].ratio == Approx(0.5).epsilon(0.05));
  CHECK(describe(found.slow[0]) == "rank 5 on node1: copy to host at 0.50 of the median, in 2 of 3 sets");

  // 0.85 of the median's speed is a warning.
  for (auto& set : ranks[5].solo_s) set[to_host] = kSpin / 0.85;
  CHECK(judge_solo(ranks, 0.9, 0.8, false).outcome == Outcome::warn);
}

TEST_CASE("only equal devices are compared, and not too few of them", "[locate][ranks]") {
  auto ranks = healthy(8);
  for (int r = 0; r < 3; ++r) {
    ranks[r].device = "an older GPU";
    for (auto& set : ranks[r].solo_s) set.fill(3 * kSpin);
  }
  const SlowRankVerdict found = judge_solo(ranks, 0.9, 0.8, false);
  CHECK(found.outcome == Outcome::pass);
  CHECK(found.slow.empty());
  REQUIRE(found.skipped.size() == 1);
  CHECK(found.skipped[0] == "solo probes: 3 ranks on an older GPU, too few to compare");
  CHECK(judge_solo(healthy(3), 0.9, 0.8, false).outcome == Outcome::skip);
}

TEST_CASE("where ranks take turns on cores, cold caches are not a fault and a slow core is", "[locate][ranks]") {
  auto ranks = healthy(8);
  const auto fill = static_cast<std::size_t>(SoloProbe::fill), spin = static_cast<std::size_t>(SoloProbe::spin);
  ranks[3].solo_s[0][fill] = ranks[3].solo_s[2][fill] = 1.5 * kSpin;
  CHECK(judge_solo(ranks, 0.9, 0.8, false).outcome == Outcome::fail);
  const SlowRankVerdict known = judge_solo(ranks, 0.9, 0.8, true);
  CHECK(known.outcome == Outcome::pass);
  CHECK(known.skipped.size() == 1);
  auto seen = ranks;
  for (ProbedRank& rank : seen) rank.core.fill({0.2, 0.05, 0.15});
  CHECK(judge_solo(seen, 0.9, 0.8, false).outcome == Outcome::pass);

  ranks[3].solo_s[0][spin] = ranks[3].solo_s[2][spin] = 1.5 * kSpin;
  CHECK(judge_solo(ranks, 0.9, 0.8, true).outcome == Outcome::fail);

  for (ProbedRank& rank : seen) rank.work_cpu_s = 0;  // a device works, and needs no core for it
  CHECK(judge_solo(seen, 0.9, 0.8, true).outcome == Outcome::fail);
}

TEST_CASE("a rank that is kept off its core in all sets is named", "[locate][ranks]") {
  auto ranks = healthy(8);
  for (std::size_t set = 0; set < 2; ++set) ranks[5].core[set] = {0.2, 0.04, 0.16};  // a quota: it waits
  CHECK(judge_core(ranks, 0.9, 0.8, false).outcome == Outcome::pass);                // others may want a core
  ranks[5].core[2] = {0.21, 0.042, 0};                                               // stopped: it does not
  const SlowRankVerdict found = judge_core(ranks, 0.9, 0.8, false);
  CHECK(found.outcome == Outcome::fail);
  REQUIRE(found.slow.size() == 1);
  CHECK(found.slow[0].rank == 5);
  CHECK(found.slow[0].ratio == Approx(0.2).epsilon(0.02));  // 0.2 / 0.99
  CHECK(describe(found.slow[0]) == "rank 5 on node1: kept off its core: 0.20 of the median's CPU time, in 3 of 3 sets");

  for (CoreTime& time : ranks[5].core) time = {0.2, 0.17, 0.03};
  CHECK(judge_core(ranks, 0.9, 0.8, false).outcome == Outcome::warn);
  CHECK(judge_core(healthy(3), 0.9, 0.8, false).outcome == Outcome::skip);
  for (CoreTime& time : ranks[5].core) time = {1, 0, 0};  // never
  CHECK(judge_core(ranks, 0.9, 0.8, false).outcome == Outcome::fail);
}

TEST_CASE("where ranks take turns on cores, waiting is not a fault and being stopped is", "[locate][ranks]") {
  auto ranks = healthy(8);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const double cpu_s = r % 2 == 0 ? 0.02 : 0.08;  // an unfair scheduler
    ranks[r].core.fill({0.2, cpu_s, 0.2 - cpu_s});
  }
  ranks[3].core[0].waited_s -= 0.01;  // 10 ms that nothing accounts for
  CHECK(judge_core(ranks, 0.9, 0.8, false).outcome == Outcome::pass);
  CHECK(judge_core(ranks, 0.9, 0.8, true).outcome == Outcome::pass);

  ranks[5].core[0] = ranks[5].core[2] = {0.2, 0.02, 0.1};
  const SlowRankVerdict found = judge_core(ranks, 0.9, 0.8, false);
  CHECK(found.outcome == Outcome::fail);
  REQUIRE(found.slow.size() == 1);
  CHECK(
      describe(found.slow[0]) ==
      "rank 5 on node1: kept off its core: 0.20 of the median's CPU time (waiting for other processes left out), in 2 "
      "of 3 sets");

  ranks[0].core[1].waited_s = -1;  // a kernel that does not tell
  const SlowRankVerdict skipped = judge_core(ranks, 0.9, 0.8, false);
  CHECK(skipped.outcome == Outcome::skip);
  CHECK(skipped.slow.empty());
  CHECK(skipped.skipped.size() == 1);
}

TEST_CASE("spinning lasts two periods of a quota, and on until there was enough of a core", "[locate][ranks]") {
  // Clocks that a look at the wall moves on by 1/1024 s, of which the thread has its core for a share; sums are exact.
  const auto spin = [](double share) {
    double now_s = 0;
    return spin_on_core({[&] { return now_s += 0x1p-10; }, [&] { return share * now_s; }, [] { return 3.0; }});
  };
  const CoreTime whole = spin(1);
  CHECK(whole.wall_s == 206 * 0x1p-10);  // 205 steps are the first beyond 0.2 s, and the last reading is one more
  CHECK(whole.cpu_s == whole.wall_s);
  CHECK(whole.waited_s == 0);
  const CoreTime twentieth = spin(0x1p-5);  // 20 ms of a core in 0.64 s: 656 steps
  CHECK(twentieth.wall_s == 657 * 0x1p-10);
  CHECK(twentieth.cpu_s == 657 * 0x1p-15);
  CHECK(spin(0).wall_s == 1025 * 0x1p-10);  // no longer than 1 s
}

TEST_CASE("spinning has its core for a while, and where the kernel tells, it tells", "[locate][ranks]") {
  const CoreTime time = spin_on_core();
  CHECK(time.cpu_s > 0);
  CHECK((time.waited_s >= 0) == (waited_for_core_s() >= 0));
}

TEST_CASE("who failed in every look so far is looked at again", "[locate][ranks]") {
  SlowRank slow;
  slow.looks = slow.looks_slow = 2;
  CHECK(fails_so_far(slow));
  slow.looks_slow = 1;
  CHECK_FALSE(fails_so_far(slow));
  slow.looks = 1;
  slow.outcome = Outcome::warn;
  CHECK_FALSE(fails_so_far(slow));
}

TEST_CASE("a rank that comes last most times is late", "[locate][ranks]") {
  auto ranks = healthy(8);
  for (int i = 0; i < 200; ++i) ranks[3].entry_s[i] += i % 10 < 7 ? 0.5e-3 : 0;  // 70 % of the time
  const SlowRankVerdict found = judge_arrival(ranks, 1e-6, false);
  CHECK(found.outcome == Outcome::fail);
  REQUIRE(found.slow.size() == 1);
  CHECK(found.slow[0].rank == 3);
  CHECK(found.slow[0].times_last >= 140);
  CHECK(found.slow[0].iterations == 200);
  CHECK(found.slow[0].late_s == Approx(0.5e-3).epsilon(0.1));
  CHECK_FALSE(found.slow[0].confirmed);
  CHECK(describe(found.slow[0]) ==
        "rank 3 on node0: last in 149 of 200 arrivals, 0.49 ms after the median rank; without it the operation is no "
        "faster");

  // Who costs nothing is a remark.
  SlowRankVerdict remark = found;
  drop_unconfirmed(remark);
  CHECK(remark.outcome == Outcome::pass);
  CHECK(remark.slow.empty());
  CHECK(remark.skipped.size() == 1);
  SlowRankVerdict confirmed = found;
  confirmed.slow[0].confirmed = true;
  drop_unconfirmed(confirmed);
  CHECK(confirmed.outcome == Outcome::fail);
  CHECK_THAT(describe(confirmed.slow[0]), Catch::EndsWith("without it the operation is as fast as it should be"));
}

TEST_CASE("lateness within the clocks' error, or half of the time, or of shared cores, is none", "[locate][ranks]") {
  auto ranks = healthy(8);
  for (double& entry : ranks[3].entry_s) entry += 0.5e-3;
  CHECK(judge_arrival(ranks, 1e-6, false).outcome == Outcome::fail);
  CHECK(judge_arrival(ranks, 0.2e-3, false).outcome == Outcome::pass);  // 4 x 0.2 ms
  CHECK(judge_arrival(ranks, 1e-6, true).outcome == Outcome::skip);
  auto sharing = ranks;
  for (ProbedRank& rank : sharing) rank.work_cpu_s = 0.5e-3;  // of 1 ms
  CHECK(judge_arrival(sharing, 1e-6, false).outcome == Outcome::skip);
  // One alone that has its core half of the time is what is looked for.
  auto throttled = ranks;
  throttled[3].work_cpu_s = 0.5e-3;
  CHECK(judge_arrival(throttled, 1e-6, false).outcome == Outcome::fail);

  auto two = healthy(2);
  for (double& entry : two[0].entry_s) entry += 0.5e-3;
  CHECK(judge_arrival(two, 1e-6, false).outcome == Outcome::skip);

  auto half = healthy(8);
  for (int i = 0; i < 200; i += 2) half[3].entry_s[i] += 0.5e-3;
  CHECK(judge_arrival(half, 1e-6, false).outcome == Outcome::pass);
}

TEST_CASE("a rank that is slow in one look and not minutes later is a warning", "[locate][ranks]") {
  const auto slow_at = [](int rank) {
    auto ranks = healthy(8);
    for (auto& set : ranks[static_cast<std::size_t>(rank)].solo_s) {
      for (double& time_s : set) time_s *= 2;
    }
    return judge_solo(ranks, 0.9, 0.8, false);
  };
  SlowRankVerdict steady = slow_at(3);
  REQUIRE(steady.outcome == Outcome::fail);
  SlowRankVerdict busy = steady;
  SlowRankVerdict once = steady;
  for (int later = 0; later < 2; ++later) {
    look_again(steady, slow_at(3));
    look_again(busy, later == 0 ? slow_at(3) : slow_at(5));
  }
  for (SlowRankVerdict* verdict : {&steady, &busy, &once}) demand_looks(*verdict, 3);
  CHECK(steady.outcome == Outcome::fail);
  CHECK(describe(steady.slow[0]).ends_with("slow in 3 of 3 looks"));
  CHECK(busy.outcome == Outcome::warn);
  CHECK(busy.slow[0].rank == 3);
  CHECK(describe(busy.slow[0]).ends_with("slow in 2 of 3 looks: busy for a while, it seems, not at fault"));
  CHECK(once.outcome == Outcome::warn);  // no time for more
}
