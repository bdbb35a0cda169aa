// The bugs these would catch: an interval that does not exist, or a NaN, makes the file unreadable, and launches cannot
// be merged because what they measured, or who they were, is not in their files.

#include "common/output/json_report.h"
#include "golden.h"
#include "json_of.h"
#include "report_fixture.h"

#include <catch2/catch.hpp>

#include <limits>

using namespace busbar;

namespace {

Json parsed(const JsonReport& report) { return json_of(report.document()); }

Row measured_row() {
  Row row = sample_row();
  row.out_of_place.stats = row.in_place.stats = sample_cell();
  row.algorithm = ShownAlgorithm{"RING", "LL128", "24", 100e-6};
  return row;
}

}  // namespace

TEST_CASE("A run of --stat reads as the golden file has it", "[json_stat][unit]") {
  RunInfo info = sample_stat_run();
  info.config.per_rank = true;
  JsonReport report(info, sample_plan());
  Row row = measured_row();
  CellStats& cell = *row.out_of_place.stats;
  cell.modes = Modes{110e-6, 140e-6, 0.75};
  cell.ranks = {{.rank = 0, .host = "node0", .own_median_s = 140e-6, .last_share = 0.02},
                {.rank = 1,
                 .host = "node1",
                 .own_median_s = 20e-6,
                 .late_median_s = 120e-6,
                 .late_p99_s = 150e-6,
                 .last_share = 0.98}};
  report.add(row);
  Summary summary;
  summary.mean_busbw = 135.935;
  summary.disturbance = Disturbance{.foreign_cpu = 0.31,
                                    .foreign_host = "node1",
                                    .steal = 0.01,
                                    .throttled_s = 0.5,
                                    .involuntary_switches = 12,
                                    .spin_spread = 1.02,
                                    .copy_spread = 1.05,
                                    .flags = {"foreign_cpu: 0.31 cores on node1"}};
  report.finish(summary, ExitCode::good, "2026-07-04 10:20:32");
  check_golden("json_stat.json", report.document());
}

TEST_CASE("A file says which launch it is of, on which hosts", "[json_stat][unit]") {
  RunInfo info = sample_run();
  info.ranks.push_back(info.ranks[0]);
  const Json busbar = parsed(JsonReport(info, sample_plan()))["busbar"];
  CHECK(busbar["launch_uuid"] == "0123456789abcdef0123456789abcdef");
  CHECK(busbar["hosts"] == Json{"node0", "node1"});
  CHECK_FALSE(busbar.contains("stat"));
}

TEST_CASE("The cells stand in the order that the seed shuffles", "[json_stat][unit]") {
  RunInfo info = sample_stat_run();
  Plan plan = sample_plan();
  plan.cases = {sample_case(2), sample_case(4)};
  Json stat = parsed(JsonReport(info, plan))["busbar"]["stat"];
  CHECK(stat["seed"] == 42);
  CHECK(stat["disturbance"].is_null());
  REQUIRE(stat["cells"].size() == 4);
  CHECK(stat["cells"][1]["in_place"] == true);
  CHECK(stat["cells"][2]["nbytes"] == 16);
  info.config.placement = Placements::out;
  stat = parsed(JsonReport(info, plan))["busbar"]["stat"];
  CHECK(stat["cells"].size() == 2);
  info.config.placement = Placements::both;
  for (const Collective* without : {&kBarrier, &kPingpong}) {
    plan.collective = without;
    CHECK(parsed(JsonReport(info, plan))["busbar"]["stat"]["cells"].size() == 2);
  }
  plan.collective = &kSendrecv;
  CHECK(parsed(JsonReport(info, plan))["busbar"]["stat"]["cells"].size() == 4);
  plan.why_out_alone = "the library cannot";
  CHECK(parsed(JsonReport(info, plan))["busbar"]["stat"]["cells"].size() == 2);
}

TEST_CASE("What is unknown is null, and the file stays valid", "[json_stat][unit]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  JsonReport report(sample_stat_run(), sample_plan());
  Row row = measured_row();
  row.in_place.supported = false;
  CellStats& cell = *row.out_of_place.stats;
  cell.interval_s.reset();
  cell.relative_half_width = std::numeric_limits<double>::infinity();
  cell.skew_median_s.reset();
  cell.median_s = cell.lag1 = cell.trend_p = cell.canary_spread = nan;
  cell.epoch_medians_s = {nan};
  cell.ranks = {{.rank = 0, .host = "node\xff", .own_median_s = 1e-6}};
  row.algorithm = ShownAlgorithm{};
  report.add(row);
  CHECK(parsed(report)["results"][0]["actual_iterations"] == 1200);
  const Json busbar = parsed(report)["results"][0]["busbar"];
  const Json& stats = busbar["out_of_place"]["stats"];
  CHECK(stats["interval_s"].is_null());
  CHECK(stats["relative_half_width"].is_null());
  CHECK(stats["median_s"].is_null());
  CHECK(stats["epoch_medians_s"] == Json::array({nullptr}));
  CHECK(stats["skew_median_s"].is_null());
  CHECK(stats["straggler_rank"].is_null());
  CHECK(stats["ranks"][0]["late_median_s"].is_null());
  CHECK(stats["ranks"][0]["own_median_s"] == 1e-6);
  CHECK_FALSE(busbar["in_place"].contains("stats"));
  CHECK(busbar["algorithm"]["algorithm"] == "unknown");
  CHECK(busbar["algorithm"]["predicted_s"].is_null());
}
