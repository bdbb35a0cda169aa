// Catches: a table of comm_perf whose columns move, a step that the library lacks and that looks like a fast one,
// phases in the wrong row, and JSON or CSV that say otherwise than the table.

#include "golden.h"
#include "json_of.h"
#include "programs/comm/comm_perf.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Catch::Contains;

namespace {

RunInfo run_info(bool stat) {
  RunInfo info;
  info.program = "comm_perf";
  info.version = "0.1.0";
  info.backend = "nccl";
  info.library_version = "NCCL 2.28.9";
  info.args = {"comm_perf", "-n", "7"};
  info.start_time = "2026-11-23 22:00:00";
  info.launch_uuid = "0123456789abcdef0123456789abcdef";
  info.nranks = 2;
  info.config.iters = 7;
  info.config.stat = stat;
  info.mpi_threads = MpiThreads::single;
  for (int rank : {0, 1}) {
    info.ranks.push_back({rank, 0, 100 + rank, "node" + std::to_string(rank), {0, "0000:18:00", "NVIDIA H200"}});
  }
  info.remarks = {"a remark"};
  return info;
}

InitTimings timings(int rank, double total, double bootstrap) {
  InitTimings t;
  t.rank = rank;
  t.nranks = 2;
  t.total = total;
  t.kernels = 0.12;
  t.bootstrap = bootstrap;
  t.topo = 0.5;
  return t;
}

StepResult measured(LifecycleStep step, double first_s, double median_s, StopReason stop = StopReason::time) {
  StepResult r;
  r.step = step;
  r.first_s = first_s;
  r.samples = 7;
  r.least_s = median_s / 2;
  r.most_s = median_s * 3;
  r.stats.emplace();
  r.stats->median_s = median_s;
  r.stats->interval_s = Interval{median_s * 0.9, median_s * 1.1};
  r.stats->relative_half_width = 0.1;
  r.stats->stop = stop;
  r.stats->epoch_medians_s = {median_s, median_s * 3, median_s / 2};
  return r;
}

LifecycleResult measured() {
  LifecycleResult result;
  result.init = {3.031, 0.012};
  result.cycles = 7;
  StepResult create = measured(LifecycleStep::create, 3.031, 0.2504);
  create.first_phases = timings(1, 3.03, 1.6);
  create.phases = {timings(0, 0.25, 0.01), timings(1, 0.75, 0.03), timings(0, 0.24, 0.02)};
  result.steps.push_back(create);
  result.steps.push_back(measured(LifecycleStep::first_op, 0.012, 0.0021, StopReason::noisy));
  StepResult dup;
  dup.step = LifecycleStep::dup;
  dup.skipped = "NCCL has none, \"ncclCommSplit\" is its like";
  result.steps.push_back(dup);
  StepResult quick = measured(LifecycleStep::free, 12e-6, 9e-6);
  quick.stats->interval_s.reset();  // of too few
  result.steps.push_back(quick);
  return result;
}

}  // namespace

TEST_CASE("comm_perf's table has a row for each step, phases below it and reasons behind", "[comm][table]") {
  const auto text = [](const RunInfo& info) {
    return lifecycle_header(info) + lifecycle_table(info.config, measured()) + lifecycle_footer(measured());
  };
  check_golden("lifecycles.txt", text(run_info(false)));
  check_golden("lives_stat.txt", text(run_info(true)));
}

TEST_CASE("wrong data of comm_perf's operations are told in its footer", "[comm][table]") {
  LifecycleResult result = measured();
  result.wrong = 3;
  CHECK_THAT(lifecycle_footer(result), Contains("# Out of bounds values : 3 FAILED"));
}

TEST_CASE("comm_perf's JSON says what its table says, in seconds", "[comm][json]") {
  const Json json =
      json_of(lifecycle_json(run_info(true), measured(), LifecycleEnd{"2026-11-23 22:01:00", ExitCode::good}));
  CHECK(json["document"] == "communicators");
  CHECK(json["nranks"] == 2);
  CHECK(json["where"] == Json({"node0", "node1"}));
  CHECK(json["exit_code"] == 0);
  CHECK(json["init"]["create_s"] == 3.031);
  REQUIRE(json["steps"].size() == 4);
  const Json& create = json["steps"][0];
  CHECK(create["step"] == "create");
  CHECK(create["skipped"].is_null());
  CHECK(create["first_s"] == 3.031);
  CHECK(create["median_s"] == 0.2504);
  CHECK(create["max_s"] == 0.7512);
  CHECK(create["interval_s"].size() == 2);
  CHECK(create["first_phases"]["bootstrap_s"] == 1.6);
  CHECK(create["first_phases"]["alloc_s"].is_null());
  CHECK(create["phases"].size() == 3);
  CHECK(json["steps"][1]["stop"] == "noisy");
  CHECK(json["steps"][2]["skipped"] == "NCCL has none, \"ncclCommSplit\" is its like");
  CHECK_FALSE(json["steps"][2].contains("median_s"));
  // What a crash leaves behind is not a good run.
  const Json unfinished = json_of(lifecycle_json(run_info(false), measured(), std::nullopt));
  CHECK(unfinished["exit_code"].is_null());
  CHECK(unfinished["stat"].is_null());
}

TEST_CASE("comm_perf's CSV has a line for each step", "[comm][csv]") {
  CHECK(lifecycle_csv(run_info(true), measured()) ==
        "step,nranks,first_us,median_us,ci_low_us,ci_high_us,min_us,max_us,samples,stop,skipped\n"
        "create,2,3031000,250400,225360,275440,125200,751200,7,time,\n"
        "first-op,2,12000,2100,1890,2310,1050,6300,7,noisy,\n"
        "dup,2,,,,,,,0,,\"NCCL has none, \"\"ncclCommSplit\"\" is its like\"\n"
        "free,2,12,9,,,4.5,27,7,time,\n");
}
