// Would catch: a criterion that never fails, one that fails the healthy, a noisy measurement that passes, a cell that
// was not measured and passes, a culprit without name, an average that hides one bad size.

#include "accept_fixture.h"
#include "driver/accept/judge_acceptance.h"
#include "driver/accept/read_accept_plan.h"
#include "synthetic_times.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

using namespace busbar;
using Catch::Contains;

namespace {

const CriterionResult* find(const AcceptResult& r, Criterion criterion) {
  const auto found = std::find_if(r.criteria.begin(), r.criteria.end(),
                                  [&](const CriterionResult& c) { return c.criterion == criterion; });
  return found == r.criteria.end() ? nullptr : &*found;
}

/// The worst of a criterion's rows.
CriterionResult judged(AcceptResult r, Criterion criterion, const std::vector<Platform>& platforms = {},
                       const AcceptResult* baseline = nullptr) {
  judge_acceptance(r, platforms, baseline);
  REQUIRE(find(r, criterion) != nullptr);
  CriterionResult worst = *find(r, criterion);
  for (const CriterionResult& c : r.criteria) {
    if (c.criterion == criterion && c.outcome > worst.outcome) worst = c;
  }
  CHECK(r.outcome >= worst.outcome);
  return worst;
}

Outcome outcome(AcceptResult r, Criterion criterion) { return judged(std::move(r), criterion).outcome; }

AcceptResult with(const std::string& criteria, Cell cell) {
  AcceptResult r = accept_result(criteria);
  r.cells = {std::move(cell)};
  return r;
}

Cell noisy(Cell m, double low, double high) {
  m.stop = StopReason::noisy;
  m.interval_s = Interval{m.median_s * low, m.median_s * high};
  m.busbw_interval = Interval{m.busbw / high, m.busbw / low};
  return m;
}

/// A plan of one cell "a" in stage per-host on so many hosts, all alike.
AcceptResult per_host(int nhosts, const std::string& criteria = "{host-spread: {warn: 10%, fail: 20%}}") {
  AcceptResult r = accept_result();
  r.plan = read_accept_plan(
      "stages: [per-host]\ncells:\n  - name: a\n    collective: all_reduce\n    sizes: 1M\n"
      "    criteria: " +
          criteria + "\n",
      "plan.yaml");
  r.cells.clear();
  r.hosts.clear();
  for (int i = 0; i < nhosts; ++i) {
    const std::string host = "node" + std::to_string(i);
    r.hosts.push_back({host, {i}, "host memory"});
    // Hosts differ a little, as they do: 0, 1, 2 % in turn.
    r.cells.push_back(slower(measured_cell("a", Stage::per_host, host), 1 + 0.01 * (i % 3)));
  }
  return r;
}

/// All that is said of a run, a line for each criterion.
std::string told(AcceptResult r, const std::vector<Platform>& platforms = {}, const AcceptResult* baseline = nullptr) {
  judge_acceptance(r, platforms, baseline);
  std::string text = fmt::format("{}\n", name(r.outcome));
  for (const CriterionResult& c : r.criteria) {
    text += fmt::format("{} {} {}/{} {}", name(c.outcome), name(c.criterion), name(c.stage), c.cell, c.scope);
    const auto add = [&](const char* what, const std::string& value) {
      if (!value.empty()) text += fmt::format(" | {} {}", what, value);
    };
    add("found", c.found);
    add("wanted", c.wanted);
    add("busbw", c.wanted_busbw ? fmt::format("{}", *c.wanted_busbw) : "");
    add("from", c.source);
    add("because", c.reason);
    add("on", fmt::format("{}", fmt::join(c.hosts, ",")));
    text += '\n';
  }
  return text;
}

Platform h200() {
  return read_platform(
      "schema: 1\ngpu: H200\ngpu-not: [NVL]\ngpus-per-node: 8\n"
      "ceilings:\n  - {algorithm: RING, busbw: 369, source: links}\n"
      "  - {algorithm: RING, network: ib, busbw: 400, source: cards}\n"
      "expect:\n"
      "  - {collective: all_reduce, nodes: 1, sizes: 8G, algorithm: NVLS, busbw: 473, kind: measured, source: A}\n"
      "  - {collective: all_reduce, nodes: 1, sizes: 8G, algorithm: RING, busbw: 365.6, kind: measured, source: B}\n"
      "  - {collective: all_reduce, nodes: 1, sizes: 16G, busbw: 431, kind: threshold, source: C}\n"
      "  - {collective: all_reduce, nodes: 2, network: ib, sizes: [1G, 8G], busbw: 300, kind: measured, source: D}\n",
      "h200.yaml");
}

/// One node of 8 H200, all_reduce of 8 GiB at this busbw.
AcceptResult on_h200(double busbw, const std::string& algorithm, const std::string& criteria = "{busbw: expected}") {
  Cell m = measured_cell("a");
  m.nranks = 8;
  m.nhosts = 1;
  m.nbytes = 8ull << 30;
  m.algorithm = algorithm;
  AcceptResult r = with(criteria, slower(m, 1 / busbw));
  r.backend = "nccl";
  r.hosts = {{"node0", {0, 1, 2, 3, 4, 5, 6, 7}, "NVIDIA H200 x 8"}};
  return r;
}

}  // namespace

TEST_CASE("a bound fails only where the whole interval is worse, passes only where it is better", "[accept][judge]") {
  const auto of = [](double value, Interval interval, Bound bound, bool larger, bool precise = false) {
    return judge_bound({.value = value, .interval = interval, .precise = precise}, bound, larger).outcome;
  };
  const Bound fast{100, 80};
  CHECK(of(120, {110, 130}, fast, true) == Outcome::pass);
  CHECK(of(90, {85, 95}, fast, true) == Outcome::warn);
  CHECK(of(70, {60, 79}, fast, true) == Outcome::fail);
  CHECK(of(80, {75, 85}, fast, true) == Outcome::inconclusive);
  CHECK(of(100, {95, 105}, fast, true) == Outcome::warn);
  CHECK(of(79.9, {79, 81}, fast, true, true) == Outcome::fail);
  CHECK(of(80.1, {79, 81}, fast, true, true) == Outcome::warn);
  CHECK(of(100.1, {99, 101}, fast, true, true) == Outcome::pass);
  const Bound late{1, 2};
  CHECK(of(0.5, {0.4, 0.6}, late, false) == Outcome::pass);
  CHECK(of(1.5, {1.4, 1.6}, late, false) == Outcome::warn);
  CHECK(of(3, {2.5, 3.5}, late, false) == Outcome::fail);
  CHECK(of(2, {1.5, 2.5}, late, false) == Outcome::inconclusive);
  // Without an interval nothing passes, and only what is far off fails.
  CHECK(judge_bound({.value = 120, .interval = {}}, fast, true).outcome == Outcome::inconclusive);
  CHECK(judge_bound({.value = 39, .interval = {}}, fast, true).outcome == Outcome::fail);
  CHECK(judge_bound({.value = std::nan(""), .interval = Interval{1, 2}}, fast, true).outcome == Outcome::inconclusive);
}

TEST_CASE("bounds are judged with their reasons, word by word", "[accept][judge]") {
  std::string text;
  const Bound both{100, 80};
  for (const Bound& bound : {both, Bound{100, std::nullopt}, Bound{std::nullopt, 80}}) {
    text += bound_text(bound, true, busbw_text) + "\n";
    for (const auto& [value, low, high] :
         {std::tuple(120.0, 110.0, 130.0), std::tuple(99.0, 90.0, 110.0), std::tuple(101.0, 90.0, 110.0),
          std::tuple(90.0, 85.0, 95.0), std::tuple(79.0, 70.0, 90.0), std::tuple(81.0, 70.0, 90.0),
          std::tuple(70.0, 60.0, 75.0)}) {
      text += fmt::format("  {} [{}, {}]:", value, low, high);
      for (const auto& [precise, of_few] : {std::pair(false, false), std::pair(true, false), std::pair(false, true)}) {
        const Estimate e{.value = value, .interval = Interval{low, high}, .precise = precise, .of_few = of_few};
        const BoundVerdict verdict = judge_bound(e, bound, true);
        text += fmt::format(" {}{}", name(verdict.outcome), verdict.reason.empty() ? "" : " (" + verdict.reason + ")");
      }
      text += "\n";
    }
    for (const double value : {81.0, 41.0, 39.0, std::nan("")}) {
      const BoundVerdict verdict = judge_bound({.value = value, .interval = {}}, bound, true);
      text += fmt::format("  {}: {} {}\n", value, name(verdict.outcome), verdict.reason);
    }
  }
  for (const double value : {159.0, 161.0}) {
    text += fmt::format("{}\n", name(judge_bound({.value = value, .interval = {}}, {std::nullopt, 80}, false).outcome));
  }
  text += bound_text({2, 2}, false, time_text) + ", " + bound_text({1e-5, 2e-3}, false, time_text) + "\n";
  CHECK(text == R"(>= 80 GB/s (warn 100 GB/s)
  120 [110, 130]: PASS PASS PASS
  99 [90, 110]: WARN (the interval contains the bound) WARN WARN
  101 [90, 110]: WARN (the interval contains the bound) PASS PASS
  90 [85, 95]: WARN WARN WARN
  79 [70, 90]: INCONCLUSIVE (the interval contains the bound: too noisy to tell) FAIL INCONCLUSIVE (the interval contains the bound: too noisy to tell)
  81 [70, 90]: INCONCLUSIVE (the interval contains the bound: too noisy to tell) WARN WARN
  70 [60, 75]: FAIL FAIL FAIL
  81: INCONCLUSIVE measured too briefly for an interval
  41: INCONCLUSIVE measured too briefly for an interval
  39: FAIL measured too briefly for an interval, but worse than the bound by more than a factor of two
  nan: INCONCLUSIVE no number was measured
>= 100 GB/s (else warn)
  120 [110, 130]: PASS PASS PASS
  99 [90, 110]: WARN (the interval contains the bound) WARN WARN
  101 [90, 110]: WARN (the interval contains the bound) PASS PASS
  90 [85, 95]: WARN WARN WARN
  79 [70, 90]: WARN WARN WARN
  81 [70, 90]: WARN WARN WARN
  70 [60, 75]: WARN WARN WARN
  81: INCONCLUSIVE measured too briefly for an interval
  41: INCONCLUSIVE measured too briefly for an interval
  39: INCONCLUSIVE measured too briefly for an interval
  nan: INCONCLUSIVE no number was measured
>= 80 GB/s
  120 [110, 130]: PASS PASS PASS
  99 [90, 110]: PASS PASS PASS
  101 [90, 110]: PASS PASS PASS
  90 [85, 95]: PASS PASS PASS
  79 [70, 90]: INCONCLUSIVE (the interval contains the bound: too noisy to tell) FAIL INCONCLUSIVE (the interval contains the bound: too noisy to tell)
  81 [70, 90]: INCONCLUSIVE (the interval contains the bound: too noisy to tell) PASS PASS
  70 [60, 75]: FAIL FAIL FAIL
  81: INCONCLUSIVE measured too briefly for an interval
  41: INCONCLUSIVE measured too briefly for an interval
  39: FAIL measured too briefly for an interval, but worse than the bound by more than a factor of two
  nan: INCONCLUSIVE no number was measured
INCONCLUSIVE
FAIL
<= 2 s, <= 2 ms (warn 10 us)
)");
}

TEST_CASE("hosts, spreads, dips and late ranks over a sweep, word by word", "[accept][judge]") {
  std::string text;
  const auto add = [&](AcceptResult r, Criterion criterion) {
    judge_acceptance(r, {}, nullptr);
    for (const CriterionResult& c : r.criteria) {
      if (c.criterion != criterion) continue;
      text += fmt::format("{} | {} | {} | {}\n", name(c.outcome), c.found, c.reason, fmt::join(c.hosts, ","));
    }
  };
  for (const int nhosts : {1, 2, 3, 7, 8, 20}) {
    for (const double factor : {1.04, 1.15, 1.4, 2.5}) {
      AcceptResult r = per_host(nhosts);
      r.cells.back() = slower(r.cells.back(), factor);
      if (factor == 1.15) r.cells.back() = noisy(r.cells.back(), 0.8, 1.2);
      add(r, Criterion::host_spread);
    }
  }
  text += "waiting for cores\n";
  for (const double factor : {1.4, 2.5}) {
    for (const double wait : {0.1, 0.3}) {
      AcceptResult r = per_host(4);
      r.cells.back() = slower(r.cells.back(), factor);
      for (Cell& cell : r.cells) cell.core_wait = wait;
      add(r, Criterion::host_spread);
      AcceptResult alone = per_host(4);
      alone.cells.back() = slower(alone.cells.back(), factor);
      alone.cells.back().core_wait = wait;
      add(alone, Criterion::host_spread);
    }
  }
  text += "epochs\n";
  for (const int nslow : {0, 1, 3, 9}) {
    for (const std::size_t n : {std::size_t{7}, std::size_t{20}}) {
      Cell m = measured_cell("a");
      m.epoch_medians_s.resize(n, 1e-3);
      for (std::size_t i = 0; i < n; ++i)
        m.epoch_medians_s[i] *= i < static_cast<std::size_t>(nslow) ? 1.6 : 1 + 0.01 * static_cast<double>(i % 3);
      const AcceptResult r = with("{time-spread: 1%, dips: {warn: 5%, fail: 20%}}", m);
      add(r, Criterion::time_spread);
      add(r, Criterion::dips);
    }
  }
  text += "late\n";
  for (const double late_s : {0.05e-3, 0.15e-3, 0.3e-3}) {
    for (const double share : {0.55, 0.7}) {
      Cell m = measured_cell("a");
      for (int rank = 0; rank < 4; ++rank)
        m.ranks.push_back({rank, rank < 2 ? "node0" : "node1", 1e-3, 1e-6, 2e-6, 0.1});
      m.ranks[1].late_median_s = late_s;
      m.ranks[1].last_share = share;
      add(with("{rank-spread: {warn: 10%, fail: 20%}}", m), Criterion::rank_spread);
    }
  }
  Cell few = measured_cell("a");
  few.ranks.push_back({0, "node0", 1e-3, 1e-6, 2e-6, 0.1});
  add(with("{rank-spread: 20%}", few), Criterion::rank_spread);
  for (int rank = 1; rank < 4; ++rank) few.ranks.push_back({rank, "node1", 1e-3, 1e-6, 2e-6, 0.1});
  few.samples = 19;
  add(with("{rank-spread: 20%}", few), Criterion::rank_spread);
  few.samples = 20;
  add(with("{rank-spread: 20%}", few), Criterion::rank_spread);
  few.median_s = 0;
  add(with("{rank-spread: 20%}", few), Criterion::rank_spread);
  CHECK(text == R"(SKIP |  | there is only one host, and none to compare it with | 
SKIP |  | there is only one host, and none to compare it with | 
SKIP |  | there is only one host, and none to compare it with | 
SKIP |  | there is only one host, and none to compare it with | 
PASS | slowest: node1 4.8 % below the faster of 2 hosts (1.05 ms, usual 1 ms); a FAIL is possible from 20.0 % on |  | 
INCONCLUSIVE | slowest: node1 13.9 % below the faster of 2 hosts (1.161 ms, usual 1 ms); a FAIL is possible from 28.0 % on | the interval contains the bound: too noisy to tell; of two hosts the slower one; too few to know what is usual | node1
FAIL | slowest: node1 29.3 % below the faster of 2 hosts (1.414 ms, usual 1 ms); a FAIL is possible from 20.0 % on | of two hosts the slower one; too few to know what is usual | node1
FAIL | slowest: node1 60.4 % below the faster of 2 hosts (2.525 ms, usual 1 ms); a FAIL is possible from 20.0 % on | of two hosts the slower one; too few to know what is usual | node1
PASS | slowest: node2 4.8 % below the median of 3 hosts (1.061 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | 
INCONCLUSIVE | slowest: node2 13.9 % below the median of 3 hosts (1.173 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on | the interval contains the bound: too noisy to tell | node2
FAIL | slowest: node2 29.3 % below the median of 3 hosts (1.428 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | node2
FAIL | slowest: node2 60.4 % below the median of 3 hosts (2.55 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | node2
PASS | slowest: node6 2.9 % below the median of 7 hosts (1.04 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | 
INCONCLUSIVE | slowest: node6 12.2 % below the median of 7 hosts (1.15 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on | the interval contains the bound: too noisy to tell | node6
FAIL | slowest: node6 27.9 % below the median of 7 hosts (1.4 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | node6
FAIL | slowest: node6 59.6 % below the median of 7 hosts (2.5 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | node6
PASS | slowest: node7 3.8 % below the median of 8 hosts (1.05 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | 
INCONCLUSIVE | slowest: node7 13.0 % below the median of 8 hosts (1.161 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on | the interval contains the bound: too noisy to tell | node7
FAIL | slowest: node7 28.6 % below the median of 8 hosts (1.414 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | node7
FAIL | slowest: node7 60.0 % below the median of 8 hosts (2.525 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | node7
PASS | slowest: node19 3.8 % below the median of 20 hosts (1.05 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | 
INCONCLUSIVE | slowest: node19 13.0 % below the median of 20 hosts (1.161 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on | the interval contains the bound: too noisy to tell | node19
FAIL | slowest: node19 28.6 % below the median of 20 hosts (1.414 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | node19
FAIL | slowest: node19 60.0 % below the median of 20 hosts (2.525 ms, usual 1.01 ms); a FAIL is possible from 20.0 % on |  | node19
waiting for cores
FAIL | slowest: node3 27.5 % below the median of 4 hosts (1.4 ms, usual 1.015 ms); a FAIL is possible from 20.0 % on |  | node3
FAIL | slowest: node3 27.5 % below the median of 4 hosts (1.4 ms, usual 1.015 ms); a FAIL is possible from 20.0 % on |  | node3
WARN | slowest: node3 27.5 % below the median of 4 hosts (1.4 ms, usual 1.015 ms) | ranks waited for a core 30 % of the time: other work or other ranks had it | 
FAIL | slowest: node3 27.5 % below the median of 4 hosts (1.4 ms, usual 1.015 ms); a FAIL is possible from 20.0 % on | there ranks waited for a core 30 % of the time: other work or other ranks had it | node3
FAIL | slowest: node3 59.4 % below the median of 4 hosts (2.5 ms, usual 1.015 ms); a FAIL is possible from 20.0 % on |  | node3
FAIL | slowest: node3 59.4 % below the median of 4 hosts (2.5 ms, usual 1.015 ms); a FAIL is possible from 20.0 % on |  | node3
INCONCLUSIVE | slowest: node3 59.4 % below the median of 4 hosts (2.5 ms, usual 1.015 ms) | ranks waited for a core 30 % of the time: other work or other ranks had it | 
FAIL | slowest: node3 59.4 % below the median of 4 hosts (2.5 ms, usual 1.015 ms); a FAIL is possible from 20.0 % on | there ranks waited for a core 30 % of the time: other work or other ranks had it | node3
epochs
SKIP |  | fewer than 8 epochs show no spread: raise max-time | 
SKIP |  | fewer than 8 epochs show no spread: raise max-time | 
INCONCLUSIVE | 1.5 % [0.7 %, 2.2 %] | the interval contains the bound: too noisy to tell | 
PASS | 0.0 % [0.0 %, 16.1 %] |  | 
SKIP |  | fewer than 8 epochs show no spread: raise max-time | 
SKIP |  | fewer than 8 epochs show no spread: raise max-time | 
INCONCLUSIVE | 1.5 % [0.7 %, 2.2 %] | the interval contains the bound: too noisy to tell | 
PASS | 5.0 % [0.9 %, 23.6 %] |  | 
SKIP |  | fewer than 8 epochs show no spread: raise max-time | 
SKIP |  | fewer than 8 epochs show no spread: raise max-time | 
INCONCLUSIVE | 1.5 % [0.7 %, 2.2 %] | the interval contains the bound: too noisy to tell | 
WARN | 15.0 % [5.2 %, 36.0 %] |  | 
SKIP |  | fewer than 8 epochs show no spread: raise max-time | 
SKIP |  | fewer than 8 epochs show no spread: raise max-time | 
FAIL | 2.9 % [1.4 %, 4.4 %] |  | 
FAIL | 45.0 % [25.8 %, 65.8 %] |  | 
late
PASS | rank 1 on node0 is 49 us later than the median rank (4.9 %), last in 55 % of samples |  | 
PASS | rank 1 on node0 is 49 us later than the median rank (4.9 %), last in 70 % of samples |  | 
WARN | rank 1 on node0 is 149 us later than the median rank (14.9 %), last in 55 % of samples |  | node0
WARN | rank 1 on node0 is 149 us later than the median rank (14.9 %), last in 70 % of samples |  | node0
INCONCLUSIVE | rank 1 on node0 is 299 us later than the median rank (29.9 %), last in 55 % of samples | no rank is last often enough to be blamed | 
FAIL | rank 1 on node0 is 299 us later than the median rank (29.9 %), last in 70 % of samples |  | node0
SKIP |  | fewer than three ranks whose arrivals are known | 
SKIP |  | too few samples to tell who is late | 
PASS | rank 0 on node0 is 0 us later than the median rank (0.0 %), last in 10 % of samples |  | 
SKIP |  | no time was measured | 
)");
}

TEST_CASE("wrong and unchecked data and a drift, word by word", "[accept][judge]") {
  std::string text;
  const auto add = [&](AcceptResult r, Criterion criterion) {
    const CriterionResult c = judged(std::move(r), criterion);
    text += fmt::format("{} | {} | {} | {}\n", name(c.outcome), c.found, c.reason, fmt::join(c.hosts, ","));
  };
  Cell m = measured_cell("a");
  m.wrong = 5;
  m.wrong_texts = {"a", "b", "c", "d"};
  m.wrong_ranks = {0, 3, 9};
  add(with("{wrong: 0}", m), Criterion::wrong);
  m.wrong.reset();
  add(with("{wrong: 0}", m), Criterion::wrong);
  AcceptResult unchecked = with("{wrong: 0}", m);
  unchecked.plan.cells[0].config.check = 0;
  add(unchecked, Criterion::wrong);
  AcceptResult barrier = with("{wrong: 0}", m);
  barrier.plan.cells[0].collective = &kBarrier;
  add(barrier, Criterion::wrong);
  m.in_place = true;
  AcceptResult undefined = with("{wrong: 0}", m);
  undefined.plan.cells[0].collective = &kAlltoall;
  add(undefined, Criterion::wrong);
  for (const int n : {8, 9, 12}) {
    for (const double by : {0.0, 0.02, 0.2}) {
      AcceptResult r = accept_result();
      r.plan.cells[0].criteria.drift = Bound{0.05, 0.1};
      r.cells.clear();
      for (int i = 0; i < n; ++i) {
        r.cells.push_back(slower(measured_cell("a"), (1 + by * i / (n - 1)) * (1 + 0.002 * (i % 2))));
        r.cells.back().repetition = i;
      }
      add(r, Criterion::drift);
    }
  }
  AcceptResult few = with("{latency: 1.005ms}", measured_cell("a"));
  few.cells[0].stop = StopReason::time;
  add(few, Criterion::latency);
  for (int i = 1; i < 5; ++i) {
    few.cells.push_back(slower(measured_cell("a"), i == 2 ? 2 : 0.9));
    few.cells.back().repetition = i;
  }
  add(few, Criterion::latency);
  CHECK(text == R"(FAIL | 5 wrong elements | a; b; c | node0,node1
INCONCLUSIVE |  | the data were not checked | 
SKIP |  | not checked, as the plan says (check: 0) | 
SKIP |  | there are no data to check | 
SKIP |  | the library leaves nothing defined in place | 
SKIP |  | 8 repetitions are too few to show a drift, 9 needed | 
SKIP |  | 8 repetitions are too few to show a drift, 9 needed | 
SKIP |  | 8 repetitions are too few to show a drift, 9 needed | 
PASS | +0.0 % over 9 repetitions (trend p = 1) |  | 
PASS | +1.5 % over 9 repetitions (trend p = 4.6e-07) |  | 
FAIL | +14.6 % over 9 repetitions (trend p = 2.3e-06) |  | 
PASS | +0.0 % over 12 repetitions (trend p = 0.91) |  | 
PASS | +1.5 % over 12 repetitions (trend p = 0.00013) |  | 
FAIL | +14.2 % over 12 repetitions (trend p = 3.8e-10) |  | 
INCONCLUSIVE | 1 ms [990 us, 1.01 ms] | the interval contains the bound: too noisy to tell; time ran out before it was precise: raise cell-time or max-time | 
FAIL | 2 ms [1.98 ms, 2.02 ms] | 1 of 5 repetitions, the first is number 3 | 
)");
}

TEST_CASE("a healthy run passes", "[accept][judge]") {
  AcceptResult r = accept_result("{busbw: 0.8, latency: 2ms, time-spread: 5%, dips: 5%}");
  judge_acceptance(r, {}, nullptr);
  CHECK(r.outcome == Outcome::pass);
  for (const CriterionResult& c : r.criteria) {
    INFO(name(c.criterion) << " " << c.reason);
    CHECK((c.outcome == Outcome::pass || c.criterion == Criterion::platform));
  }
}

TEST_CASE("a healthy run is told word by word", "[accept][judge]") {
  Cell m = measured_cell("a");
  for (int rank = 0; rank < 4; ++rank) m.ranks.push_back({rank, rank < 2 ? "node0" : "node1", 1e-3, 1e-6, 2e-6, 0.25});
  AcceptResult r = with(
      "{wrong: 0, busbw: {warn: 0.9, fail: 0.8}, latency: 2ms, ceiling: {fail: 80%, of: 1.1}, time-spread: 5%, dips: "
      "5%, "
      "rank-spread: {warn: 10%, fail: 20%}}",
      m);
  r.plan.stages.push_back(Stage::pairs);
  AcceptResult::Located& l = r.located.emplace();
  l.unit = UnitKind::host;
  l.units = {"node0", "node1"};
  r.inits = {{4, 0.002, 0.001}};
  r.plan.init = {1, 2};
  CHECK(told(r) == R"(PASS
PASS completed whole/a all | found 1 row measured
PASS platform doctor/ all | found host memory
PASS init whole/ all | found 4 ranks, 3 ms: made in 2 ms, first operation 1 ms | wanted <= 2 s (warn 1 s)
PASS pairs pairs/ all | found PASS: all 2 within 0.00 of the median (0 rounds, noise 0.0 %)
PASS counters doctor/ all | found no error counter moved on 2 hosts | wanted unmoved
PASS wrong whole/a all | found 0 | wanted 0
PASS busbw whole/a all | found 1 GB/s [0.9901 GB/s, 1.01 GB/s] | wanted >= 0.8 GB/s (warn 0.9 GB/s) | busbw 0.8 | from the plan
PASS ceiling whole/a all | found 90.9 % [90.0 %, 91.8 %] | wanted >= 80.0 % of 1.1 GB/s | busbw 0.8800000000000001 | from the plan
PASS latency whole/a all | found 1 ms [990 us, 1.01 ms] | wanted <= 2 ms | from the plan
PASS time-spread whole/a all | found 0.0 % [0.0 %, 0.0 %] | wanted <= 5.0 %
PASS dips whole/a all | found 0.0 % [0.0 %, 16.1 %] | wanted <= 5.0 %
PASS rank-spread whole/a all | found rank 0 on node0 is 0 us later than the median rank (0.0 %), last in 25 % of samples | wanted <= 20.0 % (warn 10.0 %) | from the plan
)");
}

TEST_CASE("a sick run is told word by word", "[accept][judge]") {
  AcceptResult r = per_host(4, "{wrong: 0, host-spread: {warn: 10%, fail: 20%}}");
  r.cells[3] = slower(r.cells[3], 2);
  r.cells[1].wrong = 3;
  r.cells[1].wrong_ranks = {1};
  r.cells[1].wrong_texts = {"rank 1: 3 elements"};
  r.cells.erase(r.cells.begin());
  r.failures = {{Stage::per_host, "a", "PROCESS_STOPPED", "rank 0 on node0 is stopped", {}, {0}, 4},
                {Stage::per_host, "a", "no end", "it was killed", {"node0"}, {}, 0}};
  r.counters = {{.check = "ib.symbol_error",
                 .subject = "node1 mlx5_3/1",
                 .outcome = Outcome::fail,
                 .value = "+812",
                 .reason = "x"},
                {.check = "ib.link_downed", .subject = "node2 mlx5_3/1", .outcome = Outcome::pass, .value = "0"}};
  r.doctor.resize(1);
  r.doctor[0].host = "node0";
  r.doctor[0].rows.push_back({.check = "host.shm", .outcome = Outcome::fail, .value = "64 MB", .reason = "too small"});
  CHECK(told(r) == R"(FAIL
FAIL completed per-host/a all | found PROCESS_STOPPED (exit code 4) | wanted the stage ends by itself | because rank 0 on node0 is stopped | on node0
FAIL completed per-host/a all | found no end | wanted the stage ends by itself | because it was killed | on node0
INCONCLUSIVE completed per-host/a node0 | found 1 of 4 hosts | because not measured: the stage ended with PROCESS_STOPPED
PASS platform doctor/ all | found host memory
FAIL doctor doctor/host.shm all | found 64 MB, too small on node0 | on node0
FAIL counters doctor/ib.symbol_error node1 mlx5_3/1 | found +812 | wanted unmoved | because x | on node1
FAIL wrong per-host/a node1 | found 3 wrong elements | wanted 0 | because rank 1: 3 elements | on node1
PASS wrong per-host/a node2 | found 0 | wanted 0
PASS wrong per-host/a node3 | found 0 | wanted 0
FAIL host-spread per-host/a all | found slowest: node3 49.0 % below the median of 3 hosts (2 ms, usual 1.02 ms); a FAIL is possible from 20.0 % on | wanted <= 20.0 % (warn 10.0 %) | from the plan | on node3
)");
}

TEST_CASE("a run against its baseline is told word by word", "[accept][judge]") {
  const AcceptResult then = accept_result();
  AcceptResult now = with("{}", slower(measured_cell("a"), 1.5));
  now.version = "0.2.0";
  now.backend = "gloo";
  now.library = "";
  now.environment = {"NCCL_B=1", "NCCL_A=2"};
  now.hosts.push_back({"node2", {4}, "host memory"});
  now.hosts[0].device = "another";
  CHECK(told(now, {}, &then) == R"(FAIL
PASS completed whole/a all | found 1 row measured
WARN platform doctor/ all | found host memory | because the hosts differ: another on node0, host memory on node[1,2] | on node0
PASS counters doctor/ all | found no error counter moved on 3 hosts | wanted unmoved
PASS wrong whole/a all | found 0 | wanted 0
FAIL baseline whole/a all | found +50.0 % [+12.1, +100.7] (1.5 ms, then 1 ms) | wanted time <= +10.0 % (warn +5.0 %) | from baseline of 2026-11-21 10:00:00
PASS baseline whole/ all | found 1 of 1 rows are in the baseline of 2026-11-21 10:00:00 | because differs from it: library: 'Open MPI 4.1.4', then ''; busbar: '0.1.0', then '0.2.0'; backend: 'mpi', then 'gloo'; ranks: '4', then '5'; hosts: 'node0 node1', then 'node0 node1 node2'; variables then: NCCL_A=2 NCCL_B=1
)");
}

TEST_CASE("a cell without a number is compared with its baseline without one", "[accept][judge]") {
  const AcceptResult then = accept_result();
  const std::string text = told(with("{}", slower(measured_cell("a"), 0)), {}, &then);
  CHECK(text.find("INCONCLUSIVE baseline whole/a all | wanted") != std::string::npos);
  CHECK(text.find("nan") == std::string::npos);
}

TEST_CASE("a run beside the platform's numbers is told word by word", "[accept][platform]") {
  CHECK(told(on_h200(365, "RING", "{busbw: expected, ceiling: {warn: 95%, fail: 80%}}"), {h200()}) == R"(WARN
PASS completed whole/a all | found 1 row measured
PASS platform doctor/ all | found h200
PASS counters doctor/ all | found no error counter moved on 1 host | wanted unmoved
PASS wrong whole/a all | found 0 | wanted 0
WARN busbw whole/a all | found 365 GB/s [361.4 GB/s, 368.7 GB/s] | wanted >= 292.5 GB/s (warn 329 GB/s) | busbw 292.48 | from measured 365.6 GB/s, B | because ran RING, and NVLS reaches 473 GB/s here (A)
PASS ceiling whole/a all | found 98.9 % [97.9 %, 99.9 %] | wanted >= 80.0 % (warn 95.0 %) of 369 GB/s | busbw 295.2 | from links
)");
  // From nine tenths of what the other algorithm reaches on, the choice is none to speak of.
  CHECK(judged(on_h200(430, "RING"), Criterion::busbw, {h200()}).reason == "");
}

TEST_CASE("cells that were left out or not measured are told with whom it concerns", "[accept][judge]") {
  AcceptResult r = per_host(3);
  r.cells.pop_back();
  CHECK_THAT(told(r), Contains("node2 | found 1 of 3 hosts | because not measured"));
  for (const char* scope : {"", "all", "node2"}) {
    r.skipped = {{"a", Stage::per_host, scope, "float", "sum", "no such thing here"}};
    CHECK_THAT(told(r), !Contains("not measured") && Contains("because no such thing here"));
  }
  r.skipped[0].scope = "node1";
  CHECK_THAT(told(r), Contains("not measured"));
  // The whole has no number of hosts that are missing.
  AcceptResult whole = accept_result();
  whole.cells.clear();
  CHECK_THAT(told(whole), !Contains("of 1 hosts"));
}

TEST_CASE("busbw and latency are judged by the interval of each size", "[accept][judge]") {
  const Cell good = measured_cell("a");  // 1 GB/s, 1 ms
  CHECK(outcome(with("{busbw: 0.8}", good), Criterion::busbw) == Outcome::pass);
  CHECK(outcome(with("{busbw: 1.2}", good), Criterion::busbw) == Outcome::fail);
  CHECK(outcome(with("{busbw: {warn: 1.2, fail: 0.8}}", good), Criterion::busbw) == Outcome::warn);
  CHECK(outcome(with("{busbw: 0.9}", noisy(good, 0.8, 1.3)), Criterion::busbw) == Outcome::inconclusive);
  CHECK(outcome(with("{latency: 2ms}", good), Criterion::latency) == Outcome::pass);
  CHECK(outcome(with("{latency: 500us}", good), Criterion::latency) == Outcome::fail);
  CHECK(outcome(with("{latency: 900us}", noisy(good, 0.8, 1.3)), Criterion::latency) == Outcome::inconclusive);

  // One bad size among good ones fails although the mean is fine.
  AcceptResult r = accept_result("{busbw: 0.8}");
  for (int i = 1; i < 10; ++i) {
    Cell m = slower(measured_cell("a"), i == 5 ? 2 : 0.1);
    m.nbytes <<= i;
    r.cells.push_back(m);
  }
  const CriterionResult bad = judged(r, Criterion::busbw);
  CHECK(bad.outcome == Outcome::fail);
  CHECK(bad.nbytes == 1 << 25);
  CHECK(*bad.wanted_busbw == Approx(0.8));
  CHECK_THAT(bad.found, Contains("0.5 GB/s ["));
  CHECK_THAT(bad.wanted, Contains(">= 0.8 GB/s"));

  // One rank sends nothing over a bus: 0 GB/s is not a failure there.
  Cell alone = good;
  alone.nranks = 1;
  alone.busbw = 0;
  CHECK(outcome(with("{busbw: 0.8}", alone), Criterion::busbw) == Outcome::skip);
}

TEST_CASE("wrong elements fail with rank and host, unchecked ones never pass", "[accept][judge]") {
  Cell m = measured_cell("a");
  m.wrong = 7;
  m.wrong_texts = {"rank 3 on node1: got 1, want 2"};
  m.wrong_ranks = {3};
  const CriterionResult c = judged(with("{}", m), Criterion::wrong);
  CHECK(c.outcome == Outcome::fail);
  CHECK(c.hosts == std::vector<std::string>{"node1"});
  CHECK_THAT(c.found + c.reason, Contains("7 wrong") && Contains("rank 3"));
  m.wrong.reset();
  CHECK(outcome(with("{}", m), Criterion::wrong) == Outcome::inconclusive);
  AcceptResult off = with("{}", m);
  off.plan.cells[0].config.check = 0;
  CHECK(outcome(off, Criterion::wrong) == Outcome::skip);
  AcceptResult barrier = with("{}", m);
  barrier.plan.cells[0].collective = &kBarrier;
  CHECK(outcome(barrier, Criterion::wrong) == Outcome::skip);
  CHECK(judged(barrier, Criterion::wrong).reason == "there are no data to check");
  CHECK(outcome(with("{}", measured_cell("a")), Criterion::wrong) == Outcome::pass);
}

TEST_CASE("spread over time is that of the epochs", "[accept][judge]") {
  Cell m = measured_cell("a");
  for (std::size_t i = 0; i < m.epoch_medians_s.size(); ++i) m.epoch_medians_s[i] *= i % 2 == 0 ? 0.7 : 1.3;
  // Median 1 ms, every deviation 0.3 ms: 1.4826 x 0.3 = 44.5 %; with 20 epochs +- 52 % of that: 21 to 68 %.
  CHECK(outcome(with("{time-spread: 20%}", m), Criterion::time_spread) == Outcome::fail);
  CHECK(outcome(with("{time-spread: 30%}", m), Criterion::time_spread) == Outcome::inconclusive);
  CHECK(outcome(with("{time-spread: {warn: 40%, fail: 80%}}", m), Criterion::time_spread) == Outcome::warn);
  CHECK(outcome(with("{time-spread: {warn: 50%}}", m), Criterion::time_spread) == Outcome::pass);
  CHECK(outcome(with("{time-spread: 5%}", measured_cell("a")), Criterion::time_spread) == Outcome::pass);
  m.epoch_medians_s.resize(5);
  CHECK(outcome(with("{time-spread: 5%}", m), Criterion::time_spread) == Outcome::skip);
}

TEST_CASE("dips are seen where the median does not move", "[accept][judge]") {
  Cell m = measured_cell("a");
  m.epoch_medians_s.assign(100, 1e-3);
  for (std::size_t i = 0; i < 100; i += 10) m.epoch_medians_s[i] = 5e-3;
  // 10 of 100: Wilson's interval is 5.5 to 17.4 %.
  CHECK(outcome(with("{dips: 5%}", m), Criterion::dips) == Outcome::fail);
  CHECK(outcome(with("{dips: 8%}", m), Criterion::dips) == Outcome::inconclusive);
  CHECK(outcome(with("{dips: 12%}", m), Criterion::dips) == Outcome::pass);
  CHECK(outcome(with("{dips: {warn: 8%, fail: 20%}}", m), Criterion::dips) == Outcome::warn);
  CHECK(outcome(with("{dips: 20%}", m), Criterion::dips) == Outcome::pass);
  CHECK(outcome(with("{time-spread: 5%}", m), Criterion::time_spread) == Outcome::pass);
}

TEST_CASE("a repetition that is slow as a whole is a dip, and few epochs do not hide it", "[accept][judge]") {
  AcceptResult r = accept_result("{dips: {warn: 2%, fail: 10%}}");
  r.cells.clear();
  for (int i = 0; i < 20; ++i) {
    r.cells.push_back(slower(measured_cell("a"), i == 7 ? 2 : 1));
    r.cells.back().repetition = i;
  }
  const CriterionResult c = judged(r, Criterion::dips);
  CHECK(c.outcome == Outcome::fail);
  CHECK_THAT(c.reason, Contains("1 of 20 repetitions") && Contains("number 8"));
  // So slow that only three epochs fitted: 3 of 3 are at least 44 % by Wilson's interval.
  r.cells[7].epoch_medians_s.resize(3);
  CHECK(outcome(r, Criterion::dips) == Outcome::fail);
  r.cells[7].core_wait = 0.5;
  CHECK(outcome(r, Criterion::dips) == Outcome::pass);  // 1 of 20 cannot tell
  for (Cell& m : r.cells) m.epoch_medians_s.resize(3);
  CHECK(outcome(r, Criterion::dips) == Outcome::skip);
}

TEST_CASE("drift is a trend over repetitions", "[accept][judge]") {
  AcceptResult r = accept_result();
  r.plan = read_accept_plan(
      "stages: [whole]\nrepeat-for: 1h\ncells:\n  - name: a\n    collective: all_reduce\n"
      "    sizes: 1M\n    criteria: {drift: {warn: 5%, fail: 10%}}\n",
      "plan.yaml");
  const auto repeated = [&](double last) {
    AcceptResult copy = r;
    copy.cells.clear();
    for (int i = 0; i < 20; ++i) {
      Cell m = slower(measured_cell("a"), 1 + (last - 1) * i / 19);
      m.repetition = i;
      copy.cells.push_back(m);
    }
    return copy;
  };
  CHECK(outcome(repeated(1), Criterion::drift) == Outcome::pass);
  CHECK(outcome(repeated(1.3), Criterion::drift) == Outcome::fail);
  CHECK(outcome(repeated(1.1), Criterion::drift) == Outcome::warn);
  // Others came to the cores at the end.
  AcceptResult busy = repeated(1.3);
  for (std::size_t i = 14; i < 20; ++i) busy.cells[i].core_wait = 0.5;
  CHECK(outcome(busy, Criterion::drift) == Outcome::inconclusive);
  // The same values in another order are noise.
  AcceptResult shuffled = repeated(1.3);
  for (Cell& m : shuffled.cells) m.repetition = (m.repetition * 7) % 20;
  CHECK(outcome(shuffled, Criterion::drift) == Outcome::pass);
  AcceptResult few = repeated(1.3);
  few.cells.resize(5);
  CHECK(outcome(few, Criterion::drift) == Outcome::skip);
}

TEST_CASE("one bad repetition of many fails, and is counted", "[accept][judge]") {
  AcceptResult r = accept_result("{latency: 2ms}");
  r.cells.clear();
  for (int i = 0; i < 50; ++i) {
    r.cells.push_back(slower(measured_cell("a"), i == 20 ? 4 : 1));
    r.cells.back().repetition = i;
  }
  CriterionResult c = judged(r, Criterion::latency);
  CHECK(c.outcome == Outcome::fail);
  CHECK_THAT(c.reason, Contains("1 of 50 repetitions") && Contains("number 21"));
  // A few that cannot be told do not make all of them inconclusive.
  r.cells[20] = noisy(slower(measured_cell("a"), 2), 0.9, 1.1);
  CHECK(outcome(r, Criterion::latency) == Outcome::pass);
}

TEST_CASE("the slow host is named among its likes", "[accept][judge]") {
  CHECK(outcome(per_host(8), Criterion::host_spread) == Outcome::pass);
  AcceptResult r = per_host(8);
  r.cells[5] = slower(r.cells[5], 1.5);
  CriterionResult c = judged(r, Criterion::host_spread);
  CHECK(c.outcome == Outcome::fail);
  CHECK(c.hosts == std::vector<std::string>{"node5"});
  CHECK_THAT(c.found, Contains("node5") && Contains("median of 8 hosts"));

  r = per_host(8);
  r.cells[5] = slower(r.cells[5], 1.18);
  c = judged(r, Criterion::host_spread);
  CHECK(c.outcome == Outcome::warn);
  CHECK(c.hosts == std::vector<std::string>{"node5"});

  // Three hosts are enough.
  r = per_host(3);
  r.cells[1] = slower(r.cells[1], 2);
  CHECK(judged(r, Criterion::host_spread).hosts == std::vector<std::string>{"node1"});

  // Of two, the slower one, with the doubt said.
  r = per_host(2);
  r.cells[0] = slower(r.cells[0], 2);
  c = judged(r, Criterion::host_spread);
  CHECK(c.outcome == Outcome::fail);
  CHECK_THAT(c.reason, Contains("of two hosts"));
  CHECK(outcome(per_host(1), Criterion::host_spread) == Outcome::skip);
}

TEST_CASE("a host that may be beyond the bound is named, and from where on a FAIL can be told", "[accept][judge]") {
  AcceptResult r = per_host(8);
  r.cells[5] = noisy(slower(r.cells[5], 1.25), 0.95, 1.05);  // 20 % below, from 15.8 to 23.8
  CriterionResult c = judged(r, Criterion::host_spread);
  CHECK(c.outcome == Outcome::inconclusive);
  CHECK(c.hosts == std::vector<std::string>{"node5"});
  // Seven hosts know their times to 1 %: 1 - 0.8 x 0.99. They are as precise as asked, so that the value decides.
  CHECK_THAT(c.found, Contains("a FAIL is possible from 20.0 % on"));
  for (Cell& m : r.cells) m.stop = StopReason::time;
  CHECK_THAT(judged(r, Criterion::host_spread).found, Contains("a FAIL is possible from 20.8 % on"));
}

TEST_CASE("the slowest of many healthy hosts is not sick", "[accept][judge]") {
  // 512 hosts with a standard deviation of 4 %, which three deviations held for one of ordinary 8: 60 % FAILed.
  int failed = 0, found = 0;
  constexpr int kClusters = 40;
  for (std::uint64_t seed = 0; seed < kClusters; ++seed) {
    SyntheticTimes noise(SyntheticTimes::Law::independent, seed);
    AcceptResult r = per_host(512, "{host-spread: {warn: 5%, fail: 10%}}");
    for (Cell& cell : r.cells) cell = slower(cell, std::pow(noise.next(), 0.4));
    failed += outcome(r, Criterion::host_spread) == Outcome::fail ? 1 : 0;
    r.cells[100] = slower(measured_cell("a", Stage::per_host, "node100"), 1 / 0.7);
    found += judged(r, Criterion::host_spread).hosts == std::vector<std::string>{"node100"} ? 1 : 0;
  }
  CHECK(failed <= 2);
  CHECK(found >= 38);
}

TEST_CASE("hosts that all differ have no outlier", "[accept][judge]") {
  AcceptResult r = per_host(8);
  for (std::size_t i = 0; i < 8; ++i) r.cells[i] = slower(r.cells[i], 1 + 0.15 * static_cast<double>(i));
  const CriterionResult c = judged(r, Criterion::host_spread);
  CHECK(c.outcome == Outcome::inconclusive);
  CHECK(c.hosts.empty());
}

TEST_CASE("hosts that take turns on cores have no outlier, one that alone waits for them is one", "[accept][judge]") {
  AcceptResult r = per_host(8);
  r.cells[5] = slower(r.cells[5], 3);
  for (Cell& m : r.cells) m.core_wait = 0.4;
  CriterionResult c = judged(r, Criterion::host_spread);
  CHECK(c.outcome == Outcome::inconclusive);
  CHECK(c.hosts.empty());
  CHECK_THAT(c.reason, Contains("waited for a core 40 % of the time"));
  // As little as this is not what makes it slow.
  for (Cell& m : r.cells) m.core_wait = 0.1;
  CHECK(judged(r, Criterion::host_spread).hosts == std::vector<std::string>{"node5"});
  r.cells[5].core_wait = 0.6;
  c = judged(r, Criterion::host_spread);
  CHECK(c.outcome == Outcome::fail);
  CHECK(c.hosts == std::vector<std::string>{"node5"});
  CHECK_THAT(c.reason, Contains("there ranks waited for a core 60 %"));
  // A warning stays one, and blames nobody.
  r = per_host(8);
  r.cells[5] = slower(r.cells[5], 1.18);
  for (Cell& m : r.cells) m.core_wait = 0.4;
  c = judged(r, Criterion::host_spread);
  CHECK(c.outcome == Outcome::warn);
  CHECK(c.hosts.empty());
  CHECK(outcome(per_host(8), Criterion::host_spread) == Outcome::pass);
  // What one could be told to be is a warning too: it is the scheduler's choice who is slow, up to a factor of two.
  r.cells[5] = slower(measured_cell("a", Stage::per_host, "node5"), 1.5);
  r.cells[5].core_wait = 0.4;
  c = judged(r, Criterion::host_spread);
  CHECK(c.outcome == Outcome::warn);
  CHECK(c.hosts.empty());
  CHECK_THAT(c.reason, Contains("waited for a core"));
  // Of two hosts that of the faster one counts.
  r = per_host(2);
  r.cells[0] = slower(r.cells[0], 3);
  r.cells[0].core_wait = 0.6;
  r.cells[1].core_wait = 0.0;
  CHECK(judged(r, Criterion::host_spread).hosts == std::vector<std::string>{"node0"});
  r.cells[1].core_wait = 0.3;
  CHECK(outcome(r, Criterion::host_spread) == Outcome::inconclusive);
}

TEST_CASE("spread over time is not a failure where ranks take turns on cores", "[accept][judge]") {
  Cell m = measured_cell("a");
  for (std::size_t i = 0; i < m.epoch_medians_s.size(); ++i) m.epoch_medians_s[i] *= i % 2 == 0 ? 0.7 : 1.3;
  REQUIRE(outcome(with("{time-spread: 20%}", m), Criterion::time_spread) == Outcome::fail);
  m.core_wait = 0.3;
  const CriterionResult c = judged(with("{time-spread: 20%}", m), Criterion::time_spread);
  CHECK(c.outcome == Outcome::inconclusive);
  CHECK_THAT(c.reason, Contains("waited for a core"));
  // What is asked as a number stays asked.
  CHECK(outcome(with("{latency: 500us}", m), Criterion::latency) == Outcome::fail);
}

TEST_CASE("the late rank is named, not those that wait for it", "[accept][judge]") {
  Cell m = measured_cell("a");
  for (int rank = 0; rank < 4; ++rank) m.ranks.push_back({rank, rank < 2 ? "node0" : "node1", 1e-3, 1e-6, 2e-6, 0.05});
  CHECK(outcome(with("{rank-spread: {warn: 10%, fail: 20%}}", m), Criterion::rank_spread) == Outcome::pass);
  m.ranks[2].own_median_s = 0.5e-3;
  m.ranks[2].late_median_s = 0.5e-3;
  m.ranks[2].last_share = 0.9;
  const CriterionResult c = judged(with("{rank-spread: {warn: 10%, fail: 20%}}", m), Criterion::rank_spread);
  CHECK(c.outcome == Outcome::fail);
  CHECK(c.hosts == std::vector<std::string>{"node1"});
  CHECK_THAT(c.found, Contains("rank 2 on node1"));
  m.ranks[2].last_share = 0.3;
  CHECK(outcome(with("{rank-spread: 20%}", m), Criterion::rank_spread) == Outcome::inconclusive);
  m.shared_cores = true;
  CHECK(outcome(with("{rank-spread: 20%}", m), Criterion::rank_spread) == Outcome::skip);
  m.shared_cores = false;
  m.ranks[0].last_share.reset();
  CHECK(outcome(with("{rank-spread: 20%}", m), Criterion::rank_spread) == Outcome::skip);
}

TEST_CASE("what was not measured is not a pass", "[accept][judge]") {
  AcceptResult r = accept_result();
  r.cells.clear();
  CriterionResult c = judged(r, Criterion::completed);
  CHECK(c.outcome == Outcome::inconclusive);
  CHECK_THAT(c.reason, Contains("not measured"));
  // Skipped with a reason: no failure, but nothing was judged either.
  r.skipped = {{"a", Stage::whole, "all", "float", "sum", "no such thing here"}};
  r.counters_read = false;
  judge_acceptance(r, {}, nullptr);
  CHECK(find(r, Criterion::completed)->outcome == Outcome::skip);
  CHECK(r.outcome == Outcome::inconclusive);
  // Of four hosts one has no numbers.
  r = per_host(4);
  r.cells.pop_back();
  c = judged(r, Criterion::completed);
  CHECK(c.outcome == Outcome::inconclusive);
  CHECK(c.scope == "node3");
  // The engine wrote down what is complete, and this is not among it.
  r = accept_result();
  r.done = {"doctor"};
  CHECK(judged(r, Criterion::completed).reason ==
        "the cell was not finished; not measured: no time was left, or the run was cut off");
  CHECK(outcome(r, Criterion::completed) == Outcome::inconclusive);
  r.done = {"whole/a"};
  CHECK(outcome(r, Criterion::completed) == Outcome::pass);
  // A cell for GPUs is none of host memory's.
  r.plan.cells[0].memory = CellMemory::gpu;
  CHECK(outcome(r, Criterion::completed) == Outcome::skip);
}

TEST_CASE("a hang or a crash is a failure with its culprit", "[accept][judge]") {
  AcceptResult r = accept_result();
  r.failures = {{Stage::whole, "a", "PROCESS_STOPPED", "rank 3 on node1 is stopped", {}, {3}, 4}};
  r.cells.clear();
  judge_acceptance(r, {}, nullptr);
  CHECK(r.outcome == Outcome::fail);
  const CriterionResult& c = *find(r, Criterion::completed);
  CHECK(c.hosts == std::vector<std::string>{"node1"});
  CHECK_THAT(c.found + c.reason, Contains("PROCESS_STOPPED") && Contains("rank 3") && Contains("exit code 4"));
  const auto missing = std::find_if(r.criteria.begin(), r.criteria.end(),
                                    [](const auto& k) { return k.outcome == Outcome::inconclusive; });
  REQUIRE(missing != r.criteria.end());
  CHECK_THAT(missing->reason, Contains("ended with PROCESS_STOPPED"));
}

TEST_CASE("a plan that expects GPUs fails on host memory", "[accept][judge]") {
  AcceptResult r = accept_result();
  CHECK(outcome(r, Criterion::platform) == Outcome::pass);
  r.plan.needs_gpus = true;
  CHECK(judged(r, Criterion::platform).outcome == Outcome::fail);
  r.plan.needs_gpus = false;
  r.plan.platform = "h200";
  CHECK_THAT(judged(r, Criterion::platform).reason, Contains("host memory"));
  r = on_h200(470, "NVLS");
  r.plan.platform = "h100";
  CHECK(judged(r, Criterion::platform, {h200()}).outcome == Outcome::fail);
  r.plan.platform = "h200";
  CHECK(judged(r, Criterion::platform, {h200()}).outcome == Outcome::pass);
  r.hosts = {{"node0", {0}, "NVIDIA H200 x 8"}, {"node1", {8}, "NVIDIA H200 x 8"}, {"node2", {16}, "NVIDIA H200 x 7"}};
  const CriterionResult c = judged(r, Criterion::platform, {h200()});
  CHECK(c.outcome == Outcome::fail);
  CHECK(c.hosts == std::vector<std::string>{"node2"});
  r.plan.platform = "auto";
  CHECK(judged(r, Criterion::platform, {h200()}).outcome == Outcome::warn);
}

TEST_CASE("a platform is recognised by whole words of the device's name", "[accept][platform]") {
  const std::vector<Platform> all = shipped_platforms();
  const auto recognised = [&](const std::string& device) {
    const RecognisedPlatform found = recognise_platform(all, {{"node0", {0}, device}});
    return found.platform != nullptr ? found.platform->name : "none: " + found.reason;
  };
  CHECK(recognised("NVIDIA H200 x 8") == "h200");
  CHECK(recognised("NVIDIA H100 80GB HBM3 x 8") == "h100");
  CHECK(recognised("NVIDIA A100-SXM4-80GB x 8") == "a100");
  CHECK(recognised("Tesla V100-SXM2-32GB x 8") == "v100");
  CHECK(recognised("NVIDIA B200 x 8") == "b200");
  CHECK(recognised("NVIDIA GB200 x 4") == "gb200");
  CHECK(recognised("NVIDIA B300 SXM6 AC x 8") == "b300");
  CHECK(recognised("NVIDIA GB300 x 4") == "gb300");
  CHECK_THAT(recognised("NVIDIA GH200 480GB x 1"), Contains("none"));
  CHECK_THAT(recognised("NVIDIA A100-PCIE-40GB x 2"), Contains("none"));
  CHECK_THAT(recognised("NVIDIA H100 PCIe x 2"), Contains("none"));
  CHECK_THAT(recognised("NVIDIA H200 NVL x 8"), Contains("none"));
  CHECK_THAT(recognised("host memory"), Contains("host memory"));
  CHECK_THAT(recognised("NVIDIA GeForce RTX 4090 x 1"), Contains("none"));
  CHECK_THAT(recognise_platform(all, {}).reason, Contains("no host"));
}

TEST_CASE("expected busbw is that of the algorithm that ran", "[accept][platform]") {
  const std::vector<Platform> all{h200()};
  CHECK(judged(on_h200(470, "NVLS"), Criterion::busbw, all).outcome == Outcome::pass);
  CHECK(judged(on_h200(400, "NVLS"), Criterion::busbw, all).outcome == Outcome::warn);  // 0.85 of 473
  const CriterionResult slow = judged(on_h200(300, "NVLS"), Criterion::busbw, all);
  CHECK(slow.outcome == Outcome::fail);
  CHECK_THAT(slow.source, Contains("measured 473 GB/s, A"));
  // Ring at its own best, although NVLS would reach more: no failure, but worth a word.
  const CriterionResult ring = judged(on_h200(365, "RING"), Criterion::busbw, all);
  CHECK(ring.outcome == Outcome::warn);
  CHECK_THAT(ring.reason, Contains("NVLS reaches 473 GB/s"));
  AcceptResult forced = on_h200(365, "RING");
  forced.plan.cells[0].environment = {{"NCCL_ALGO", "Ring"}};
  CHECK(judged(forced, Criterion::busbw, all).outcome == Outcome::pass);
  // Nobody's number: skipped, and said why.
  CHECK(judged(on_h200(365, "TREE"), Criterion::busbw, all).outcome == Outcome::skip);
  CHECK_THAT(judged(on_h200(365, "default"), Criterion::busbw, all).reason, Contains("not known"));
  AcceptResult small = on_h200(365, "NVLS");
  small.cells[0].nbytes = 1 << 20;
  CHECK_THAT(judged(small, Criterion::busbw, all).reason, Contains("no number"));
  AcceptResult four = on_h200(365, "NVLS");
  four.cells[0].nranks = 4;
  CHECK(judged(four, Criterion::busbw, all).outcome == Outcome::skip);
  // A vendor's threshold has no margin, and any algorithm will do.
  AcceptResult threshold = on_h200(425, "TREE");
  threshold.cells[0].nbytes = 16ull << 30;
  CHECK(judged(threshold, Criterion::busbw, all).outcome == Outcome::fail);
  // Two nodes: only over the network that the number is about.
  AcceptResult two = on_h200(290, "RING");
  two.cells[0].nhosts = 2;
  two.cells[0].nranks = 16;
  CHECK(judged(two, Criterion::busbw, all).outcome == Outcome::skip);
  two.network = "ib";
  CHECK(judged(two, Criterion::busbw, all).outcome == Outcome::pass);
}

TEST_CASE("a ceiling is that of the links and the algorithm", "[accept][platform]") {
  const std::vector<Platform> all{h200()};
  const std::string asked = "{ceiling: {warn: 95%, fail: 80%}}";
  CHECK(judged(on_h200(360, "RING", asked), Criterion::ceiling, all).outcome == Outcome::pass);
  CHECK(judged(on_h200(280, "RING", asked), Criterion::ceiling, all).outcome == Outcome::fail);
  CHECK(judged(on_h200(360, "NVLS", asked), Criterion::ceiling, all).outcome == Outcome::skip);
  CHECK_THAT(judged(on_h200(360, "unknown", asked), Criterion::ceiling, all).reason, Contains("not known"));
  // The plan may say it, on any machine.
  CHECK(outcome(with("{ceiling: {fail: 80%, of: 1.5}}", measured_cell("a")), Criterion::ceiling) == Outcome::fail);
  CHECK(outcome(with("{ceiling: {fail: 80%, of: 1.1}}", measured_cell("a")), Criterion::ceiling) == Outcome::pass);
}

TEST_CASE("every number that is shipped has a source", "[accept][platform]") {
  int numbers = 0;
  for (const Platform& p : shipped_platforms()) {
    INFO(p.name);
    for (const PlatformEntry& e : p.entries) {
      CHECK(e.source.size() > 3);
      CHECK((e.kind == FigureKind::measured || e.kind == FigureKind::threshold));
      CHECK(e.busbw < 2000);
      ++numbers;
    }
    for (const PlatformCeiling& c : p.ceilings) CHECK(c.source.size() > 3);
  }
  CHECK(numbers > 30);
}

TEST_CASE("counters that moved and sick nodes are criteria", "[accept][judge]") {
  AcceptResult r = accept_result();
  CHECK(outcome(r, Criterion::counters) == Outcome::pass);
  r.counters.push_back(
      {.check = "ib.symbol_error", .subject = "node1 mlx5_3/1", .outcome = Outcome::fail, .value = "+812"});
  const CriterionResult c = judged(r, Criterion::counters);
  CHECK(c.outcome == Outcome::fail);
  CHECK(c.hosts == std::vector<std::string>{"node1"});
  r.counters_read = false;
  CHECK(outcome(r, Criterion::counters) == Outcome::skip);

  r = accept_result();
  r.plan.stages.insert(r.plan.stages.begin(), Stage::doctor);
  CHECK(outcome(r, Criterion::doctor) == Outcome::inconclusive);
  r.doctor.resize(2);
  r.doctor[0].host = "node0";
  r.doctor[1].host = "node1";
  r.doctor[0].rows.push_back({.check = "host.shm", .outcome = Outcome::pass, .value = "8 GB"});
  r.doctor[1].rows.push_back({.check = "host.shm", .outcome = Outcome::fail, .value = "64 MB", .reason = "too small"});
  const CriterionResult d = judged(r, Criterion::doctor);
  CHECK(d.outcome == Outcome::fail);
  CHECK(d.hosts == std::vector<std::string>{"node1"});
}

TEST_CASE("what was located is a criterion", "[accept][judge]") {
  AcceptResult r = accept_result();
  r.plan.stages.push_back(Stage::pairs);
  CHECK(outcome(r, Criterion::pairs) == Outcome::inconclusive);
  AcceptResult::Located& l = r.located.emplace();
  l.unit = UnitKind::host;
  l.units = {"node0", "node1"};
  CHECK(outcome(r, Criterion::pairs) == Outcome::pass);
  l.finding.outcome = Outcome::fail;
  Culprit culprit;
  culprit.units = {1};
  l.finding.culprits = {culprit};
  judge_acceptance(r, {}, nullptr);
  CHECK(r.outcome == Outcome::fail);
  CHECK(std::any_of(r.criteria.begin(), r.criteria.end(), [](const CriterionResult& c) {
    return c.criterion == Criterion::pairs && c.hosts == std::vector<std::string>{"node1"};
  }));
}

TEST_CASE("of many looks at the pairs one finding stands, and half that could not tell are not a pass",
          "[accept][judge]") {
  AcceptResult r = accept_result();
  r.plan.stages.push_back(Stage::pairs);
  AcceptResult::Located& l = r.located.emplace();
  l.unit = UnitKind::host;
  l.units = {"node0", "node1"};
  l.looks = 4;
  l.unclear = 1;
  CHECK(outcome(r, Criterion::pairs) == Outcome::pass);
  l.unclear = 2;
  CHECK_THAT(judged(r, Criterion::pairs).reason, Contains("2 of 4 looks could not tell"));
  l.failed = 1;
  l.finding.outcome = Outcome::fail;
  l.slow_ranks = {{3, "node1", Outcome::fail, "late"}};
  CHECK(judged(r, Criterion::pairs).outcome == Outcome::warn);
  CHECK_THAT(judged(r, Criterion::pairs).reason, Contains("1 of 4 looks") && Contains("chance"));
  l.failed = 2;
  CHECK(judged(r, Criterion::pairs).outcome == Outcome::fail);
  CHECK_THAT(judged(r, Criterion::pairs).reason, Contains("2 of 4 looks"));
}

namespace {

/// Launches of one cell, each `factors` times as slow as the usual one.
AcceptResult launches(std::initializer_list<double> factors) {
  AcceptResult r = accept_result();
  r.launch = "mpirun -n {ranks} {cmd}";
  r.cells.clear();
  for (const double factor : factors) {
    r.cells.push_back(slower(measured_cell("a"), factor));
    r.cells.back().repetition = static_cast<int>(r.cells.size()) - 1;
  }
  return r;
}

}  // namespace

TEST_CASE("a baseline of several launches is compared by what launches differ by", "[accept][judge]") {
  const AcceptResult then = launches({0.99, 1, 1.01, 1});
  const auto against = [&](const AcceptResult& r) { return judged(r, Criterion::baseline, {}, &then); };
  CHECK(against(launches({1, 1.01, 0.99, 1})).outcome == Outcome::pass);
  CHECK(against(launches({1})).outcome == Outcome::pass);
  CHECK(against(launches({0.5})).outcome == Outcome::pass);
  CHECK(against(launches({1.07, 1.08, 1.08, 1.07})).outcome == Outcome::warn);  // 5 % warns, 10 % fails
  // By hand: logarithms' sd 0.00816 with 3 degrees, error 0.00913, t 4.541 (1 %): ln 1.3 +- 0.0415.
  const CriterionResult slow = against(launches({1.3}));
  CHECK(slow.outcome == Outcome::fail);
  CHECK_THAT(slow.found, Contains("+30.0 % [+24.7, +35.5]"));
  // +-4.1 % about 9 % contains 10 %; 4.541 + 2.353 errors beyond it: 1.1 exp(0.0629).
  const CriterionResult unsure = against(launches({1.09}));
  CHECK(unsure.outcome == Outcome::inconclusive);
  CHECK(unsure.reason == "with 4 + 1 launches (then + now) a slowdown of 17 % or more can be detected");
  // Where launches differ by more, so much is no finding.
  const AcceptResult rough = launches({0.8, 1, 1.2, 1});
  CHECK(judged(launches({1.3}), Criterion::baseline, {}, &rough).outcome == Outcome::inconclusive);
  // Repetitions of one job are one launch.
  AcceptResult together = launches({1.3, 1.3, 1.3, 1.3});
  together.launch.clear();
  const AcceptResult one = accept_result();
  CHECK(judged(together, Criterion::baseline, {}, &one).outcome == Outcome::inconclusive);
}

TEST_CASE("a baseline of too few launches fails what is far off alone, and says how far", "[accept][judge]") {
  const AcceptResult then = accept_result();
  const auto now = [](double factor) { return with("{}", slower(measured_cell("a"), factor)); };
  const auto against = [&](const AcceptResult& r) { return judged(r, Criterion::baseline, {}, &then); };
  // By hand: launches taken for 10 % and the interval's 0.5 %: error 0.1416, times 2.056 (2 %, 1000 degrees) 0.2912.
  CHECK(against(now(1)).outcome == Outcome::inconclusive);
  CHECK(against(now(0.5)).outcome == Outcome::pass);
  const CriterionResult slow = against(now(1.3));
  CHECK(slow.outcome == Outcome::inconclusive);
  CHECK_THAT(slow.found, Contains("+30.0 % [-2.8, +73.9]"));
  CHECK(slow.reason ==
        "with 1 + 1 launches (then + now), too few to show how much they differ (five do; 10 % assumed), a "
        "slowdown of 86 % or more can be detected");
  CHECK(against(now(1.5)).outcome == Outcome::fail);
  AcceptResult wide = now(1.02);
  wide.plan.baseline_margin = {0.4, 0.5};
  CHECK(against(wide).outcome == Outcome::pass);

  AcceptResult other = now(1);
  other.cells[0].nranks = 8;
  AcceptResult copy = other;
  judge_acceptance(copy, {}, &then);
  const auto skipped = std::find_if(copy.criteria.begin(), copy.criteria.end(), [](const auto& c) {
    return c.criterion == Criterion::baseline && c.outcome == Outcome::skip;
  });
  REQUIRE(skipped != copy.criteria.end());
  CHECK_THAT(skipped->reason, Contains("4 ranks, not 8"));
  CHECK(against(other).outcome == Outcome::inconclusive);  // nothing in common

  AcceptResult newer = now(1);
  newer.library = "Open MPI 5.0.1";
  judge_acceptance(newer, {}, &then);
  CHECK(std::any_of(newer.criteria.begin(), newer.criteria.end(), [](const auto& c) {
    return c.reason.find("'Open MPI 4.1.4', then 'Open MPI 5.0.1'") != std::string::npos;
  }));
  AcceptResult unread = now(1);
  unread.plan.baseline = "old.json";
  CHECK(outcome(unread, Criterion::baseline) == Outcome::inconclusive);
}

TEST_CASE("numbers that are none do not pass", "[accept][judge]") {
  Cell m = measured_cell("a");
  m.median_s = m.busbw = std::nan("");
  m.interval_s = m.busbw_interval = Interval{std::nan(""), std::nan("")};
  m.epoch_medians_s.assign(20, std::nan(""));
  AcceptResult r = with("{busbw: 1, latency: 1s, time-spread: 5%, dips: 5%, rank-spread: 5%}", m);
  const AcceptResult same = r;
  judge_acceptance(r, {}, &same);
  for (const CriterionResult& c : r.criteria) {
    INFO(name(c.criterion));
    if (c.cell == "a" && c.criterion != Criterion::wrong && c.criterion != Criterion::completed)
      CHECK(c.outcome != Outcome::pass);
  }
}

TEST_CASE("the time until the job's communicator could be used is judged against its bound", "[accept][judge]") {
  const auto waited = [](std::vector<AcceptResult::Init> inits, Bound bound = {20, 60}) {
    AcceptResult r = accept_result();
    r.plan.init = bound;
    r.inits = std::move(inits);
    return judged(r, Criterion::init);
  };
  CHECK(waited({{512, 12, 3}}).outcome == Outcome::pass);
  CHECK(waited({{512, 12, 9}}).outcome == Outcome::warn);  // neither alone is beyond 20 s
  CHECK(waited({{512, std::nan(""), 9}}).reason != "launches differ");
  const CriterionResult slow = waited({{512, 58, 4}});
  CHECK(slow.outcome == Outcome::fail);
  CHECK(slow.found == "512 ranks, 62 s: made in 58 s, first operation 4 s");
  CHECK(slow.wanted == "<= 60 s (warn 20 s)");
  CHECK(slow.hosts.empty());  // the others wait as long as the culprit
  // One launch on each side of the bound: another one may do either.
  const CriterionResult differ = waited({{512, 50, 1}, {512, 70, 1}});
  CHECK(differ.outcome == Outcome::inconclusive);
  CHECK(differ.reason == "launches differ");
  CHECK(differ.found == "512 ranks, 51 s to 71 s in 2 launches, the slowest: made in 70 s, first operation 1 s");
  CHECK(waited({{512, 61, 1}, {512, 70, 1}}).outcome == Outcome::fail);
  CHECK(waited({}).outcome == Outcome::inconclusive);
  CHECK(waited({{512, std::nan(""), 1}}).outcome == Outcome::inconclusive);
  AcceptResult unasked = accept_result();
  unasked.inits = {{512, 100, 1}};
  judge_acceptance(unasked, {}, nullptr);
  CHECK(find(unasked, Criterion::init) == nullptr);
}
