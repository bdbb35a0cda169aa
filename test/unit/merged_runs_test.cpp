// The bugs these would catch: an interval of epochs sold as one of launches, launches of different things merged, one
// launch counted twice, a slow machine mistaken for a slow library.

#include "driver/merge/merged_runs.h"

#include "common/base/error.h"
#include "json_of.h"
#include "run_fixture.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <string>
#include <vector>

using namespace busbar;

namespace {

/// A launch with epochs of median - 1, median, median + 1.
FakeRun fake(int number, double median_us) {
  return {.uuid = "uuid" + std::to_string(number),
          .cells = {{.median_us = median_us, .epochs_us = {median_us - 1, median_us, median_us + 1}}}};
}

RunFile run(const FakeRun& of, const std::string& name) { return read_run(fake_run(of), name); }

std::vector<RunFile> runs(const std::vector<double>& medians_us) {
  std::vector<RunFile> result;
  for (std::size_t i = 0; i < medians_us.size(); ++i) {
    const int number = static_cast<int>(i) + 1;
    result.push_back(run(fake(number, medians_us[i]), std::to_string(number) + ".json"));
    result.back().start_time = fmt::format("2026-07-04 {:02}:00:00", number);
  }
  return result;
}

}  // namespace

TEST_CASE("Six launches have the interval of their medians", "[merge][unit]") {
  const MergedRuns merged = merge_runs(runs({12, 15, 10, 13, 11, 14}), 2);
  CHECK(merged.warnings.empty());
  REQUIRE(merged.cells.size() == 1);
  const MergedCell& c = merged.cells.front();
  CHECK(c.launch_medians_s.size() == 6);
  CHECK(c.estimate.median == Approx(12.5e-6));
  // Six values: the first and the last, at 96.9 %.
  CHECK(c.estimate.interval->low == Approx(10e-6));
  CHECK(c.estimate.interval->high == Approx(15e-6));
  CHECK_FALSE(c.estimate.few);
  // Of the logarithms: the epochs vary by 0.006816 within, of which a median of three has a third; the medians vary by
  // 0.022977 (statistics.variance of Python).
  CHECK(c.estimate.variance_within == Approx(0.0068162).epsilon(1e-4));
  CHECK(c.estimate.variance_between == Approx(0.0207047).epsilon(1e-4));
  // sqrt(2 s / 12.5 us x 0.0068162 / 0.0207047) = 229.5
  CHECK(c.best_epochs == 230);
  CHECK_THAT(merged_text(merged), Catch::Contains("6 launches of all_reduce on 2 ranks") && Catch::Contains("12.50") &&
                                      !Catch::Contains("few launches\n"));
  const auto json = json_of(merged_json(merged));
  CHECK(json["cells"][0]["median_s"] == 12.5e-6);
  CHECK(json["cells"][0]["interval_s"] == Json{{"low", 10e-6}, {"high", 15e-6}});
  CHECK(json["cells"][0]["launch_medians_s"] == std::vector<double>{12e-6, 15e-6, 10e-6, 13e-6, 11e-6, 14e-6});
  CHECK(json["launches"].size() == 6);
}

TEST_CASE("Launches with and without nonblocking calls, or of two patterns, are not merged", "[merge][unit]") {
  std::vector<RunFile> mixed = runs({12, 15});
  mixed[1].calls = "nonblocking";
  CHECK_THROWS_WITH(merge_runs(mixed, 2),
                    "1.json and 2.json did not measure the same thing: calls blocking and nonblocking");
  mixed[1].calls = mixed[0].calls;
  mixed[0].pattern = "oneway";
  mixed[1].pattern = "both";
  CHECK_THROWS_WITH(merge_runs(mixed, 2), Catch::Contains("pattern oneway and both"));
  mixed[1].pattern = mixed[0].pattern;
  mixed[0].window = 64;
  mixed[1].window = 16;
  CHECK_THROWS_WITH(merge_runs(mixed, 2), Catch::Contains("window 64 and 16"));
}

TEST_CASE("Launches near in time are warned of", "[merge][unit]") {
  std::vector<RunFile> near = runs({12, 15, 10, 13, 11, 14});
  for (std::size_t i = 0; i < near.size(); ++i) near[i].start_time = fmt::format("2026-07-04 10:00:{:02}", 3 * i);
  CHECK(merge_runs(near, 2).warnings ==
        std::vector<std::string>{
            "6 launches began within 15 s and saw only 1 state of the machine, so their spread misses slow "
            "drift; leave 180 s between launches (busbar repeat --spaced)"});
  near[0].start_time = "";  // another program's, or an old one
  CHECK(merge_runs(near, 2).warnings.empty());
}

TEST_CASE("Few launches give no interval, and say how many do", "[merge][unit]") {
  const MergedRuns merged = merge_runs(runs({10, 20}), 2);
  const MergedCell& c = merged.cells.front();
  CHECK(c.estimate.few);
  CHECK(c.estimate.median == Approx(15e-6));
  CHECK_FALSE(c.estimate.interval);
  CHECK(merged.warnings == std::vector<std::string>{"2 launches give no interval: 6 do"});
  CHECK_THAT(merged_text(merged), Catch::Contains("      15.00           -           -       - ") &&
                                      Catch::Contains("# 2 launches give no interval: 6 do\n"));
  CHECK(merge_runs(runs({10, 20, 15, 12, 13, 14}), 2).warnings.empty());
}

TEST_CASE("Launches that cannot be merged are refused, with their names", "[merge][unit]") {
  const RunFile a = run(fake(1, 10), "a.json");
  const auto refusal = [&](FakeRun other) {
    if (other.uuid.size() > 10) other.uuid = "uuid2";
    try {
      merge_runs({a, run(other, "b.json")}, 2);
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::bad_config);
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK(refusal({.collective = "broadcast"}) ==
        "a.json and b.json did not measure the same thing: collective all_reduce and broadcast");
  CHECK_THAT(refusal({.nranks = 4}), Catch::Contains("ranks 2 and 4"));
  CHECK_THAT(refusal({.backend = "nccl"}), Catch::Contains("backend mpi and nccl"));
  CHECK_THAT(refusal({.cadence = "stream"}), Catch::Contains("cadence isolated and stream"));
  CHECK_THAT(refusal({.estimand = "slowest rank"}), Catch::Contains("estimand last in to last out and slowest rank"));
  CHECK_THAT(refusal({.buffers = "reuse"}), Catch::Contains("buffers rotate and reuse"));
  CHECK_THAT(refusal({.mpi_threads = "multiple"}), Catch::Contains("MPI threads single and multiple"));
  CHECK_THAT(refusal({.uuid = "uuid1"}), Catch::Contains("are the same launch (uuid1)"));
  CHECK_THAT(refusal({.stat = false, .cells = {{.stats = false}}}), Catch::Contains("b.json: written without --stat"));
  CHECK_THAT(refusal({.dtype = "half"}), Catch::Contains("no row in common"));
  CHECK_THAT(refusal({.redop = "max"}), Catch::Contains("no row in common"));
  CHECK_THROWS_WITH(merge_runs({a}, 2), Catch::Contains("at least two files"));
  RunFile unfinished = run(fake(2, 10), "b.json");
  unfinished.exit_code = std::nullopt;
  CHECK_THROWS_WITH(merge_runs({a, unfinished}, 2), Catch::Contains("b.json: the run did not end"));
}

TEST_CASE("What differs between launches is said", "[merge][unit]") {
  std::vector<RunFile> all = runs({10, 10, 12});
  all[1].library = "Open MPI 4.1.5";
  all[2].hosts = {"node7"};
  all[2].spin_s = 354e-6;
  all[0].flags = {"foreign_cpu: 0.50 cores on node0"};
  all[2].flags = {"steal: 0.10 cores on node7", "foreign_cpu: 0.70 cores on node7"};
  Cell more = all[0].cells[0];
  more.nbytes = 16;
  all[0].cells.push_back(more);
  const MergedRuns merged = merge_runs(all, 2);
  CHECK(merged.cells.size() == 1);
  CHECK(merged.warnings ==
        std::vector<std::string>{
            "the library differs: Open MPI 4.1.4 (1.json, 3.json); Open MPI 4.1.5 (2.json)",
            "the hosts differ: node0 (1.json, 2.json); node7 (3.json)", "3 launches give no interval: 6 do",
            "launch 3 (3.json) ran on a machine 18 % slower: its spin canary took 354.0 us, the others' 300.0 us",
            "launch 1 (1.json) was disturbed: foreign_cpu: 0.50 cores on node0; 1 more of 3 by foreign_cpu",
            "launch 3 (3.json) was disturbed: steal: 0.10 cores on node7",
            "left out: 16 float sum out of place: only 1 of 3 launches measured it"});
}

TEST_CASE("Where every launch ran on another machine than the others none is called odd", "[merge][unit]") {
  std::vector<RunFile> all = runs({10, 10, 10});
  all[0].spin_s = 240e-6;
  all[1].spin_s = 300e-6;
  all[2].spin_s = 350e-6;
  CHECK(merge_runs(all, 2).warnings ==
        std::vector<std::string>{"3 launches give no interval: 6 do",
                                 "the machine was another in most launches: the spin canary took 240.0 to 350.0 us"});
}

TEST_CASE("Wrong data have no time", "[merge][unit]") {
  std::vector<RunFile> all = runs({10, 10});
  all[1].cells[0].wrong = 5;
  const MergedRuns merged = merge_runs(all, 2);
  CHECK(merged.cells.front().wrong == 5);
  CHECK_THAT(merged_text(merged), Catch::Contains("WRONG: 5 wrong elements"));
  CHECK(json_of(merged_json(merged))["cells"][0]["median_s"].is_null());
}
