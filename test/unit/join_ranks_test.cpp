// Would show: a collective of two ranks that counts twice in a bandwidth, a rank called late because it computes less,
// ranks that disagree without a word, files of two jobs that become one, and a verdict without its reason.

#include "driver/workload/join_ranks.h"

#include "common/base/error.h"
#include "driver/workload/workload.h"
#include "workload_fixture.h"

#include <catch2/catch.hpp>

#include <set>
#include <string>

using namespace busbar;
using Catch::Contains;

namespace {

/// Two steps of 1000 us: computing 0 to 600, then an all_reduce of 1 MiB that takes `time_us`, then nothing.
TraceRank rank_of(int rank, double time_us, std::int64_t elements = 1 << 18, const std::string& more = "") {
  std::string events;
  for (int step = 0; step < 2; ++step) {
    const double at = 1000.0 + 1000 * step;
    const int id = 10 * step + 10;
    events += kineto_step(step, at, 1000) + "," + kineto_call("allreduce", id, at + 10, elements, elements) + "," +
              kineto_kernel("sgemm", 1, at, 600) + "," +
              kineto_kernel("ncclDevKernel_AllReduce", id, at + 600, time_us) + ",";
  }
  return kineto_rank(kineto_trace(rank, events + more + kineto_event("cpu_op", "aten::mm", 1, 1, "")),
                     fmt::format("rank{}.json", rank));
}

Workload joined(std::vector<TraceRank> ranks) {
  JoinRanks join;
  for (TraceRank& rank : ranks) join.add(std::move(rank));
  return join.finish();
}

std::string remarks_of(const Workload& job) {
  std::string text;
  for (const std::string& remark : workload_remarks(job)) text += remark + "\n";
  return text;
}

}  // namespace

TEST_CASE("two ranks of one all_reduce, by hand", "[workload]") {
  // Rank 1 arrives 200 us after rank 0.
  const Workload job = joined({rank_of(0, 300), rank_of(1, 100)});
  REQUIRE(job.operations.size() == 1);
  const WorkloadOperation& o = job.operations[0];
  CHECK(o.calls == 4);
  CHECK(o.nbytes == 4 << 20);
  CHECK(o.ranks == "0,1");
  CHECK(o.per_step->least == 1);
  CHECK(o.per_step->most == 1);
  REQUIRE(o.times);
  CHECK(o.times->mean_s == Approx(200e-6));
  CHECK(*o.times->exposed_s == Approx(200e-6));
  CHECK(*o.times->from_last_s == Approx(100e-6));
  CHECK(*o.times->algbw == Approx(10.48576));              // 1 MiB in 100 us
  CHECK(*o.times->busbw == Approx(10.48576 * 2 * 1 / 2));  // 2 (n - 1) / n
  REQUIRE_FALSE(job.late.empty());
  CHECK(job.late[0].rank == 1);
  CHECK(job.late[0].last == 2);
  CHECK(job.late[0].of_calls == 2);
  CHECK(job.late[0].wait_s == Approx(200e-6));
  CHECK(job.verdict.bound_by == BoundBy::computing);
  CHECK(job.verdict.share == Approx(0.6));
  CHECK(remarks_of(job).empty());
}

TEST_CASE("what bounds a job, by hand", "[workload]") {
  const auto step = [](double computing, double exposed, double idle, std::optional<double> input = std::nullopt) {
    WorkloadStep s;
    s.time_s = 1;
    s.on_gpu = true;
    s.computing_s = computing;
    s.exposed_s = s.communicating_s = exposed;
    s.idle_s = idle;
    s.input_s = input;
    s.rank = 0;
    return s;
  };
  Workload job;
  job.steps = {step(0.3, 0.6, 0.1)};
  CHECK(judge_workload(job, {true, true, false}).bound_by == BoundBy::communication);
  CHECK(judge_workload(job, {true, true, false}).missing.size() == 2);  // input, late ranks
  job.late = {{3, 5, 10, 0.1, 0.5}};
  WorkloadVerdict verdict = judge_workload(job, {true, true, false, 0.5});
  CHECK(verdict.bound_by == BoundBy::late_rank);
  CHECK(verdict.share == Approx(0.5));
  CHECK_THAT(verdict.sentence, Contains("Bound by late ranks (3), 50 % of a step"));
  // Which rank comes late changes: what is exposed is still more than what computes.
  job.late = {{3, 5, 10, 0.1, 0.2}, {1, 4, 10, 0.1, 0.1}, {0, 1, 10, 0.1, 0.1}};
  verdict = judge_workload(job, {true, true, false, 0.4});
  CHECK(verdict.bound_by == BoundBy::late_rank);
  CHECK_THAT(verdict.sentence, Contains("Bound by late ranks (mostly 3), 40 % of a step. Computing 30 %, exposed "
                                        "communication 60 % (40 % of the step waits for late ranks: mostly 3)"));
  job.late[0].per_step_s = 0.15;
  CHECK_THAT(judge_workload(job, {true, true, false, 0.35}).sentence,
             Contains("Bound by late ranks (mostly 3, 1), 35 %"));
  // Less than half of what is exposed is waiting.
  verdict = judge_workload(job, {true, true, false, 0.25});
  CHECK(verdict.bound_by == BoundBy::communication);
  CHECK(verdict.share == Approx(0.6));
  job.late.clear();
  job.steps = {step(0.3, 0.1, 0.6, 0.5)};
  CHECK(judge_workload(job, {true, true, true}).bound_by == BoundBy::input);
  job.steps = {step(0.3, 0.1, 0.6)};
  CHECK(judge_workload(job, {true, true, false}).bound_by == BoundBy::idle);
  verdict = judge_workload(job, {false, true, false});  // calls, of which no kernel is in the traces
  CHECK_THAT(verdict.sentence, Contains("exposed communication unknown"));
  CHECK_THAT(verdict.missing.front(), Contains("no kernels of communication"));
  verdict = judge_workload(job, {true, false, false});
  CHECK(verdict.bound_by == BoundBy::unknown);
  CHECK_THAT(verdict.missing[0], Contains("no computing kernels"));
}

TEST_CASE("ranks that disagree are reported, missing ones and other jobs too", "[workload]") {
  CHECK_THAT(remarks_of(joined({rank_of(0, 300), rank_of(1, 100, 1 << 10)})),
             Contains("ranks disagree: group 0: where rank 0 calls all_reduce 1048576 B float, rank 1 calls "
                      "all_reduce 4096 B float"));
  CHECK_THAT(remarks_of(joined({rank_of(1, 100)})), Contains("traces of 1 of 2 ranks: 1"));
  const std::string more = kineto_call("allreduce", 90, 1700, 8, 8) + ",";
  CHECK_THAT(remarks_of(joined({rank_of(0, 300), rank_of(1, 100, 1 << 18, more)})),
             Contains("1 collective call recorded by some ranks of the group only"));
  const auto fails = [](TraceRank first, TraceRank second, const std::string& with) {
    JoinRanks join;
    join.add(std::move(first));
    CHECK_THROWS_WITH(join.add(std::move(second)), Contains(with));
  };
  fails(rank_of(0, 1), rank_of(0, 1), "are both of rank 0");
  TraceRank other = rank_of(1, 1);
  other.nranks = 8;
  fails(rank_of(0, 1), other, "they have 2 and 8 ranks");
  other.source.kind = "NCCL log";
  fails(rank_of(0, 1), other, "one is a Kineto trace, the other a NCCL log");
  CHECK_THROWS_WITH(joined({kineto_rank(kineto_trace(0, ""))}), Contains("holds no communication call"));
}

TEST_CASE("a step that takes much longer stands out", "[workload]") {
  std::vector<WorkloadStep> steps(5);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].time_s = i == 0 ? 1.5 : 1.0 + 0.001 * static_cast<double>(i);
  mark_odd_steps(steps);
  CHECK(steps[0].stands_out);
  CHECK_FALSE(steps[4].stands_out);
  steps.resize(3);
  for (WorkloadStep& step : steps) step.stands_out = false;
  mark_odd_steps(steps);
  CHECK_FALSE(steps[0].stands_out);  // of three steps nobody can say which is odd
}

TEST_CASE("groups of one name and of several sizes get names of their own", "[workload]") {
  TraceRank rank = rank_of(0, 100);
  const TraceGroup known = rank.groups.back();
  REQUIRE_FALSE(known.name.empty());
  for (const int more : {1, 2, 3}) {
    rank.groups.push_back(known);
    rank.groups.back().size += more;
  }
  const Workload job = joined({rank});
  std::set<std::string> names;
  for (const WorkloadGroup& group : job.groups) names.insert(group.name);
  CHECK(names.size() == 4);
}
