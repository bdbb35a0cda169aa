// The bugs these would catch: a key or a type of nccl-tests' schema that a script looks for is gone, a NaN or a stray
// byte makes the file unreadable, and a run that crashed reads as a good one.

#include "common/output/json_report.h"

#include "golden.h"
#include "json_of.h"
#include "report_fixture.h"

#include <catch2/catch.hpp>

#include <limits>
#include <string>

using namespace busbar;

namespace {

Json parsed(const JsonReport& report) { return json_of(report.document()); }

Row wrong_row() {
  Row row = sample_row();
  row.cycle = 1;
  row.note = "2 calls of 2^28 elements";
  row.out_of_place.wrong = 4096;
  row.in_place.supported = false;
  row.wrong = {sample_wrong(3), sample_wrong(4)};
  row.wrong[1].in_place = true;
  row.wrong[1].suspect_rank = -1;
  return row;
}

}  // namespace

TEST_CASE("A whole run reads as the golden file has it", "[json_report][unit]") {
  RunInfo info = sample_run();
  info.remarks = {"8 ranks share 4 cores"};
  info.config.per_iter_timing = true;
  info.config.per_iter_skip = 1;
  JsonReport report(info, sample_plan());
  Row first = sample_row();
  first.out_of_place.iterations = IterationTimes{
      .skipped = 1, .times_s = {9e-3, 1e-6, 2e-6, 3e-6, 4e-6}, .per_process_max_times_s = {{9e-3}, {8e-3}}};
  report.add(first);
  report.add(wrong_row());
  Summary summary;
  summary.wrong = 4096;
  summary.mean_busbw = 181.225;
  summary.bandwidth_okay = true;
  report.finish(summary, ExitCode::wrong_data, "2026-07-04 10:20:32");
  check_golden("json_run.json", report.document());
}

TEST_CASE("Every key of nccl-tests' schema 3 has its type", "[json_report][unit]") {
  RunInfo info = sample_run();
  info.library_version_code = 22809;
  JsonReport report(info, sample_plan());
  report.add(sample_row());
  report.finish(Summary{}, ExitCode::good, "2026-07-04 10:20:32");
  const Json j = parsed(report);
  CHECK(j["version"] == 3);
  CHECK(j["nccl_version"] == 22809);
  CHECK(j["args"].size() == 7);
  CHECK(j["env"][1] == "SLURM_JWT=***");
  CHECK(j["end_time"] == "2026-07-04 10:20:32");
  const Json& config = j["config"];
  for (const char* key : {"nthreads", "ngpus", "minimum_bytes", "maximum_bytes", "step_factor", "warmup_iters",
                          "iterations", "aggregated_iterations", "validation", "graph", "per_iter_skip"}) {
    INFO(key);
    CHECK(config[key].is_number_integer());
  }
  for (const char* key : {"blocking_collectives", "per_iter_timing", "parallel_init"}) CHECK(config[key] == "false");
  CHECK(config["devices"].size() == 2);
  CHECK(config["devices"][1]["device_hex"] == "core 12");
  const Json& row = j["results"][0];
  CHECK(row["size"] == 33554432);
  CHECK(row["root"] == "-1");
  CHECK(row["out_of_place"] == Json{{"time", 123.45}, {"alg_bw", 271.804}, {"bus_bw", 271.804}, {"nwrong", 0}});
  CHECK(row["in_place"]["time"] == 500000.0);
  CHECK_FALSE(row.contains("out_of_place_per_iter"));
  CHECK(row["actual_iterations"] == 20);
  CHECK(row["experiment_name"] == "");
  CHECK(j["out_of_bounds"] == Json{{"count", 0}, {"okay", "true"}});
  CHECK(j["average_bus_bandwidth"]["okay"] == "unchecked");
  CHECK(j["errors"].empty());
  CHECK(j["busbar"]["exit_code"] == 0);
  CHECK(row["busbar"]["out_of_place"]["timed_verified"] == true);
  CHECK(row["busbar"]["in_place"]["timed_verified"] == false);
}

TEST_CASE("Options change the keys that nccl-tests changes", "[json_report][unit]") {
  RunInfo info = sample_run();
  Row row = sample_row();
  SECTION("-C") {
    info.config.report_cputime = true;
    JsonReport report(info, sample_plan());
    report.add(row);
    const Json half = parsed(report)["results"][0]["out_of_place"];
    CHECK(half["cpu_time"] == 15.43125);
    CHECK_FALSE(half.contains("time"));
  }
  SECTION("-i instead of -f, a broken factor, a list") {
    info.config.stepfactor = 1;
    CHECK(parsed(JsonReport(info, sample_plan()))["config"]["step_bytes"] == 1048576);
    info.config.stepfactor = 1.5;
    CHECK(parsed(JsonReport(info, sample_plan()))["config"]["step_factor"] == 1.5);
    info.config.sizes = {64, 8};
    const Json j = parsed(JsonReport(info, sample_plan()));
    CHECK(j["config"]["step_bytes"] == 0);
    CHECK(j["config"]["maximum_bytes"] == 64);
    CHECK(j["busbar"]["sizes"] == Json{64, 8});
  }
  SECTION("-c 0") {
    row.out_of_place.wrong.reset();
    JsonReport report(info, sample_plan());
    report.add(row);
    CHECK(parsed(report)["results"][0]["out_of_place"]["nwrong"].is_null());
  }
  SECTION("--placement in, -N 0") {
    info.config.placement = Placements::in;
    info.config.run_cycles = 0;
    JsonReport report(info, sample_plan());
    report.add(row);
    const Json j = parsed(report);
    CHECK(j["results"][0]["out_of_place"].is_null());
    CHECK(j["results"][0]["busbar"]["out_of_place"] == Json{{"measured", false}});
    CHECK(j["results"][0]["in_place"]["bus_bw"] == 0.0671);
    CHECK(j["busbar"]["placement"] == "in");
    CHECK(j["busbar"]["rows_planned"].is_null());
  }
}

TEST_CASE("A document is valid, and not good, before its end", "[json_report][unit]") {
  JsonReport report(sample_run(), sample_plan());
  Json j = parsed(report);
  CHECK(j["results"].empty());
  CHECK(j["end_time"].is_null());
  CHECK(j["busbar"]["exit_code"].is_null());
  CHECK(j["busbar"]["wrong"].empty());
  CHECK(j["out_of_bounds"]["okay"] == "false");
  CHECK(j["errors"].size() == 1);
  report.add(wrong_row());
  report.add(sample_row());
  j = parsed(report);
  CHECK(j["results"].size() == 2);
  CHECK(j["out_of_bounds"]["count"] == 4096);
  CHECK(j["average_bus_bandwidth"]["bandwidth"].get<double>() == Approx((2 * 271.804 + 0.0671) / 3));
}

TEST_CASE("Wrong data names its row and its rank", "[json_report][unit]") {
  JsonReport report(sample_run(), sample_plan());
  report.add(wrong_row());
  const Json wrong = parsed(report)["busbar"]["wrong"];
  REQUIRE(wrong.size() == 2);
  CHECK(wrong[0]["rank"] == 3);
  CHECK(wrong[0]["suspect_rank"] == 2);
  CHECK(wrong[0]["in_place"] == false);
  CHECK(wrong[0]["nbytes"] == 33554432);
  CHECK(wrong[0]["cycle"] == 1);
  CHECK(wrong[1]["in_place"] == true);
  CHECK(wrong[1]["suspect_rank"].is_null());
}

TEST_CASE("Guard bands belong to the placement that has their buffer", "[json_report][unit]") {
  JsonReport report(sample_run(), sample_plan());
  Row row = wrong_row();
  row.wrong[0].part = WrongPart::guard_after_recv;
  row.wrong[1].part = WrongPart::guard_before_recv;
  report.add(row);
  const Json wrong = parsed(report)["busbar"]["wrong"];
  CHECK(wrong[0]["in_place"] == false);
  CHECK(wrong[0]["buffer"] == "guard after recv");
  CHECK(wrong[1]["in_place"] == true);
  CHECK(wrong[1]["buffer"] == "guard before buffer");
}

TEST_CASE("A whole environment may be handed over, and no secret reaches the file", "[json_report][unit]") {
  RunInfo info = sample_run();
  info.environment = {"AWS_SECRET_ACCESS_KEY=hunter2", "SLURM_JWT=hunter2", "NCCL_ALGO=Ring"};
  const JsonReport report(info, sample_plan());
  CHECK(report.document().find("hunter2") == std::string::npos);
  CHECK(parsed(report)["env"] == Json{"SLURM_JWT=***", "NCCL_ALGO=Ring"});
}

TEST_CASE("A flood of wrong ranks is cut, counted, and still valid", "[json_report][unit][slow]") {
  JsonReport report(sample_run(), sample_plan());
  Row row = wrong_row();
  row.wrong.assign(40000, sample_wrong(1));
  report.add(row);
  report.add(row);
  const std::string text = report.document();
  CHECK(Json::accept(text));
  CHECK(text.find("\"wrong_left_out\": 14464") != std::string::npos);  // 80000 - 65536
  std::size_t told = 0;
  for (std::size_t at = 0; (at = text.find("\"suspect_rank\"", at)) != std::string::npos; ++at) ++told;
  CHECK(told == 65536);
}

TEST_CASE("Numbers that are none and bytes that are not text do not spoil the file", "[json_report][unit]") {
  RunInfo info = sample_run();
  info.args = {"\xff\xfe", "quote\" back\\slash\nline", "\x01"};
  info.ranks[0].hostname = "n\xc3";
  Row row = sample_row();
  row.out_of_place.time_s = std::numeric_limits<double>::quiet_NaN();
  row.out_of_place.busbw = std::numeric_limits<double>::infinity();
  JsonReport report(info, sample_plan());
  report.add(row);
  Summary summary;
  summary.mean_busbw = std::numeric_limits<double>::quiet_NaN();  // every row was skipped
  report.finish(summary, ExitCode::good, "");
  const Json j = parsed(report);
  CHECK(j["results"][0]["out_of_place"]["time"].is_null());
  CHECK(j["results"][0]["out_of_place"]["bus_bw"].is_null());
  CHECK(j["average_bus_bandwidth"]["bandwidth"] == 0);
  CHECK(j["args"][1] == "quote\" back\\slash\nline");
}
