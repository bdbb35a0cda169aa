// The bugs these would catch: a run file of ours that our own reader does not understand, a time read in the wrong
// unit, an unfinished or foreign file taken for a good run, and a complaint that does not say where the file is wrong.

#include "common/record/read_run.h"

#include "common/base/error.h"
#include "common/output/json_report.h"
#include "report_fixture.h"
#include "run_fixture.h"

#include <catch2/catch.hpp>

#include <string>

using namespace busbar;

namespace {

std::string complaint(const std::string& text) {
  try {
    read_run(text, "a.json");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::bad_config);
    return e.what();
  }
  return "none";
}

std::string without(std::string text, const std::string& part, const std::string& with = "") {
  const std::size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), with);
}

}  // namespace

TEST_CASE("How calls were made is read back: nonblocking or not, and pingpong's pattern and window",
          "[read_run][unit]") {
  RunInfo info = sample_run();
  const RunFile usual = read_run(JsonReport(info, sample_plan()).document(), "a.json");
  CHECK(usual.calls == "blocking");
  CHECK(usual.pattern.empty());
  info.config.nonblocking = true;
  info.config.pattern = PingpongPattern::both;
  info.config.window = 16;
  Plan plan = sample_plan();
  plan.collective = &kPingpong;
  const RunFile run = read_run(JsonReport(info, plan).document(), "a.json");
  CHECK(run.calls == "nonblocking");
  CHECK(run.pattern == "both");
  CHECK(run.window == 16);
}

TEST_CASE("What -J wrote is read back", "[read_run][unit]") {
  RunInfo info = sample_run();
  info.config.stat = true;
  info.cadence = "isolated";
  info.estimand = "last in to last out";
  Row row = sample_row();
  row.algorithm = ShownAlgorithm{.algorithm = "rule:ring", .protocol = "-", .channels = "-", .predicted_s = {}};
  CellStats stats;
  stats.median_s = 123.45e-6;
  stats.interval_s = Interval{120e-6, 130e-6};
  stats.epoch_medians_s = {121e-6, 123.45e-6, 125e-6};
  stats.samples_per_epoch = 30;
  stats.calls_per_sample = 2;
  row.out_of_place.stats = stats;
  row.in_place.stats = stats;
  row.in_place.wrong = 7;
  JsonReport report(info, sample_plan());
  report.add(row);
  Summary summary;
  summary.disturbance = Disturbance{};
  summary.disturbance->flags = {"foreign_cpu: 0.31 cores on node3"};
  report.finish(summary, ExitCode::wrong_data, "2026-07-04 10:20:32");

  const RunFile run = read_run(report.document(), "a.json");
  CHECK(run.name == "a.json");
  CHECK(run.start_time == "2026-07-04 10:20:30");
  CHECK(run.collective == "all_reduce");
  CHECK(run.backend == "mpi");
  CHECK(run.library == "Open MPI 4.1.4");
  CHECK(run.launch_uuid == "0123456789abcdef0123456789abcdef");
  CHECK(run.nranks == 2);
  CHECK(run.hosts == std::vector<std::string>{"node0", "node1"});
  CHECK(run.exit_code == 7);
  CHECK(run.stat);
  CHECK(run.cadence == "isolated");
  CHECK(run.estimand == "last in to last out");
  CHECK(run.flags == std::vector<std::string>{"foreign_cpu: 0.31 cores on node3"});
  REQUIRE(run.skipped.size() == 1);
  CHECK(run.skipped[0].op == "avg");
  CHECK(run.skipped[0].reason == "MPI has no such operation");
  REQUIRE(run.cells.size() == 2);
  const Cell& out = run.cells[0];
  CHECK(out.nbytes == 33554432);
  CHECK(out.count == 8388608);
  CHECK(out.dtype == "float");
  CHECK(out.op == "sum");
  CHECK(out.root == -1);
  CHECK_FALSE(out.in_place);
  CHECK(out.wrong == 0);
  CHECK(out.algorithm == "rule:ring");
  CHECK(out.median_s == Approx(123.45e-6));
  CHECK(out.interval_s->low == Approx(120e-6));
  CHECK(out.interval_s->high == Approx(130e-6));
  CHECK(out.epoch_medians_s == std::vector<double>{121e-6, 123.45e-6, 125e-6});
  CHECK(out.calls_per_epoch == 60);
  CHECK(run.cells[1].in_place);
  CHECK(run.cells[1].wrong == 7);
  // The table says 0.0671 GB/s for 0.5 s: 0.03355 GB took the median and the ends of its interval.
  CHECK(run.cells[1].busbw == Approx(271.77).epsilon(1e-5));
  REQUIRE(run.cells[1].busbw_interval);
  CHECK(run.cells[1].busbw_interval->low == Approx(258.077).epsilon(1e-5));
  CHECK(run.cells[1].busbw_interval->high == Approx(279.583).epsilon(1e-5));
  CHECK_FALSE(same_cell(out, run.cells[1]));
}

TEST_CASE("A run without --stat and one that never ended are read as such", "[read_run][unit]") {
  RunFile run = read_run(fake_run({.stat = false, .cells = {{.stats = false}}}), "a.json");
  CHECK_FALSE(run.stat);
  REQUIRE(run.cells.size() == 1);  // in place was not measured
  CHECK(run.cells[0].epoch_medians_s.empty());
  run = read_run(without(fake_run({}), "\"exit_code\":0", "\"exit_code\":null"), "a.json");
  CHECK_FALSE(run.exit_code);
  CHECK(run.spin_s == Approx(300e-6));
  CHECK(run.copy_s == Approx(800e-6));
}

TEST_CASE("A time that cannot be is refused", "[read_run][unit]") {
  const std::string good = fake_run({.stat = false, .cells = {{.stats = false}}});
  for (const char* time : {"-5", "0", "1e308", "2e9"}) {
    CHECK(complaint(without(good, "\"time_s\":1e-06", std::string("\"time_s\":") + time)) ==
          "a.json: results[0].busbar.out_of_place.time_s is not a time above 0, of less than 30 years");
  }
}

TEST_CASE("A complaint names the file and what is wrong in it", "[read_run][unit]") {
  const std::string good = fake_run({});
  CHECK_THAT(complaint(""), Catch::StartsWith("a.json: is not JSON: "));
  CHECK_THAT(complaint(good.substr(0, good.size() / 2)), Catch::StartsWith("a.json: is not JSON: "));
  CHECK(complaint("[1]") == "a.json: is not a JSON object");
  CHECK_THAT(complaint("{}"), Catch::StartsWith("a.json: busbar is missing"));
  CHECK(complaint(R"({"document": "locate", "schema": 3})") ==
        "a.json: this is `locate`, not what a benchmark's -J writes; `busbar report` reads it");
  CHECK(complaint(R"({"document": "hang", "schema": 3})") ==
        "a.json: this is `hang`, not what a benchmark's -J writes; `busbar diagnose` reads it");
  CHECK(complaint(without(good, "\"schema\":3", "\"schema_version\":2,\"version\":\"0.1.0\"")) ==
        "a.json: busbar 0.1.0 wrote it, in schema 2, and this busbar reads only schema 3: run again");
  CHECK_THAT(complaint(without(good, "\"nranks\":2,")), Catch::StartsWith("a.json: busbar.nranks is missing"));
  CHECK(complaint(without(good, "\"nranks\":2,", "\"nranks\":0,")) ==
        "a.json: busbar.nranks is not a whole number from 1 to 2147483647");
  CHECK(complaint(without(good, "\"size\":8,", "\"size\":18446744073709551615,")) ==
        "a.json: results[0].size is not a whole number from 0 to 9223372036854775807");
  CHECK(complaint(without(good, "\"type\":\"float\"", "\"type\":1")) == "a.json: results[0].type is not a string");
  CHECK(complaint(without(good, "\"median_s\":1e-06,", "\"median_s\":null,")) ==
        "a.json: results[0].busbar.out_of_place.stats.median_s is not a time above 0");
  CHECK(complaint(without(good, "_medians_s\":[1e-06]", "_medians_s\":[1,-1]")) ==
        "a.json: results[0].busbar.out_of_place.stats.epoch_medians_s are not times above 0");
  CHECK(complaint(without(good, "_medians_s\":[1e-06]", "_medians_s\":[]")) ==
        "a.json: results[0].busbar.out_of_place.stats.epoch_medians_s is empty");
  CHECK(
      complaint(without(good, "\"interval_s\":null,\"relative", "\"interval_s\":{\"low\":2,\"high\":1},\"relative")) ==
      "a.json: results[0].busbar.out_of_place.stats.interval_s does not rise");
  CHECK(complaint(without(good, "\"root\":\"-1\"", "\"root\":\"x\"")) == "a.json: results[0].root is not a rank");
}
