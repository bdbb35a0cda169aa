// The bugs these would catch: a cell that missed its target goes unmentioned, the footer names rows in such a way that
// nobody finds them, and a disturbed run reads like a quiet one.

#include "common/output/stat_notes.h"

#include "golden.h"
#include "report_fixture.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace busbar;

namespace {

Row row_of(std::size_t count) {
  Row row = sample_row();
  row.row_case = sample_case(count);
  row.out_of_place.stats = row.in_place.stats = sample_cell();
  return row;
}

Plan plan_of(std::initializer_list<std::size_t> counts) {
  Plan plan = sample_plan();
  plan.cases.clear();
  for (std::size_t count : counts) plan.cases.push_back(sample_case(count));
  return plan;
}

CellStats late_cell(int nranks, int late_rank) {
  CellStats cell = sample_cell();
  for (int r = 0; r < nranks; ++r) {
    const bool late = r == late_rank;
    cell.ranks.push_back({.rank = r,
                          .host = "node" + std::to_string(r / 2),
                          .own_median_s = late ? 20e-6 : 140e-6,
                          .late_median_s = late ? 120e-6 : 1e-7 * r,
                          .late_p99_s = late ? 150e-6 : 2e-6,
                          .last_share = late ? 0.94 : 0.06 / (nranks - 1)});
  }
  return cell;
}

}  // namespace

TEST_CASE("Without --stat there is nothing to say", "[stat_notes][unit]") {
  StatNotes notes(Config{}, sample_plan());
  notes.add(sample_row());
  CHECK(notes.text(std::nullopt).empty());
}

TEST_CASE("Cells that missed the target are counted and found", "[stat_notes][unit]") {
  const RunInfo info = sample_stat_run();
  StatNotes notes(info.config, plan_of({2, 4, 8}));
  Row row = row_of(2);
  row.out_of_place.stats->stop = StopReason::time;
  row.out_of_place.stats->span_s = 1.25;
  row.in_place.stats->stop = StopReason::noisy;
  notes.add(row);
  CHECK(notes.text(std::nullopt).find("# 2 of 2 cells did not reach +-1 %: 1 time, 1 noisy\n") != std::string::npos);
  row = row_of(4);
  row.out_of_place.stats->stop = StopReason::time;
  row.out_of_place.stats->span_s = 0.31;
  row.in_place.stats.reset();
  notes.add(row);
  const std::string text = notes.text(std::nullopt);
  CHECK(text.find("# 3 of 3 cells did not reach +-1 %: 2 time, 1 noisy\n") != std::string::npos);
  CHECK(text.find("#   2 time: out-of-place 8, 16 B, seen for 0.31 to 1.2 s (longer: ") != std::string::npos);
  CHECK(text.find("#   1 noisy: in-place 8 B (") != std::string::npos);
  row = row_of(8);
  row.out_of_place.stats->stop = StopReason::time;
  row.out_of_place.stats->span_s = 125;
  notes.add(row);
  CHECK(notes.text(std::nullopt).find(", seen for 0.31 to 125 s (longer: ") != std::string::npos);
}

TEST_CASE("A run without blemish says so in one line", "[stat_notes][unit]") {
  StatNotes notes(sample_stat_run().config, plan_of({2}));
  CHECK(notes.text(std::nullopt) == "#\n# No cell was measured\n#\n");
  notes.add(row_of(2));
  CHECK(notes.text(std::nullopt) == "#\n# 2 of 2 cells reached +-1 %\n#\n");
}

TEST_CASE("Neighbouring rows are compressed, others listed", "[stat_notes][unit]") {
  CHECK(compressed({{.row = 0, .in_place = false, .nbytes = 8, .group = ""}}) == "out-of-place 8 B");
  const auto cell = [](std::size_t row, bool in_place, std::size_t nbytes, const char* group = "") {
    return CellName{row, in_place, nbytes, group};
  };
  CHECK(compressed({cell(0, false, 8), cell(1, false, 16), cell(1, true, 16), cell(2, false, 32),
                    cell(5, false, 256)}) == "out-of-place 8..32, 256 B; in-place 16 B");
  CHECK(compressed({cell(3, false, 64), cell(4, false, 128), cell(5, false, 8, " double")}) ==
        "out-of-place 64, 128 B; out-of-place double 8 B");
  std::vector<CellName> many;
  for (std::size_t i = 0; i < 30; ++i) many.push_back(cell(2 * i, false, 8 * i));
  CHECK(compressed(many).find("80, 88 B and 18 more (-J FILE.json has all)") != std::string::npos);
}

TEST_CASE("Rows of several types and operations are named in full", "[stat_notes][unit]") {
  Plan plan = plan_of({2, 2});
  plan.cases[1].dtype = DType::float64;
  plan.cases[1].op = Op::max;
  StatNotes notes(sample_stat_run().config, plan);
  Row row = row_of(2);
  row.row_case = plan.cases[1];
  row.in_place.stats->trend_p = 0.001;
  notes.add(row);
  CHECK(notes.text(std::nullopt).find("in-place double max 8 B") != std::string::npos);
}

TEST_CASE("All that a reader must know stands before the footer as the golden file has it", "[stat_notes][unit]") {
  RunInfo info = sample_stat_run();
  info.config.per_rank = true;
  StatNotes notes(info.config, plan_of({256, 512, 1024, 2048}));
  Row row = row_of(256);
  row.out_of_place.stats = late_cell(4, 3);
  row.in_place.stats = late_cell(20, 18);
  notes.add(row);
  row = row_of(512);
  row.out_of_place.stats = late_cell(4, -1);  // nobody
  row.out_of_place.stats->stop = StopReason::time;
  row.in_place.stats->trend_p = 0.001;
  notes.add(row);
  row = row_of(1024);
  row.out_of_place.stats = late_cell(2, 1);
  row.out_of_place.stats->skew_median_s.reset();
  for (RankTime& rank : row.out_of_place.stats->ranks) rank = {rank.rank, rank.host, rank.own_median_s};
  row.out_of_place.stats->stop = StopReason::time;
  row.in_place.stats->modes = Modes{100e-6, 130e-6, 0.6};
  notes.add(row);
  row = row_of(2048);
  row.out_of_place.stats->stop = row.in_place.stats->stop = StopReason::noisy;
  row.out_of_place.stats->warmed_up = false;
  notes.add(row);
  Disturbance disturbance{
      .foreign_cpu = 0.31,
      .foreign_host = "node3",
      .steal = 0.02,
      .flags = {"foreign_cpu: 0.31 cores on node3", "machine_drift: memory bandwidth FAILED to hold"}};
  const std::string text = notes.text(disturbance);
  CHECK(text.find("andwidth") == std::string::npos);
  CHECK(text.find("FAILED") == std::string::npos);
  check_golden("stat_notes.txt", text);
}

TEST_CASE("Whether a run was disturbed is the first word of its line", "[stat_notes][unit]") {
  Disturbance d{.foreign_cpu = 0.004, .foreign_host = "node1", .steal = 0, .throttled_s = 0, .flags = {}};
  d.spin_spread = 1.02;
  d.copy_spread = 1.05;
  d.involuntary_switches = 3;
  CHECK(disturbance_lines(d) ==
        "# Undisturbed: foreign cpu 0.00 cores, steal 0.00, throttled 0.00 s, involuntary switches 3/s, spin canary "
        "p90/p10 1.02, copy 1.05\n");
  d.flags = {"foreign_cpu: 0.31 cores on node3"};
  CHECK(disturbance_lines(d).find("# DISTURBED foreign_cpu: 0.31 cores on node3\n# Disturbance: foreign cpu 0.00") ==
        0);
}

TEST_CASE("A run too short to judge is not called undisturbed", "[stat_notes][unit]") {
  Disturbance d{.foreign_cpu = 0.89, .foreign_host = "node1", .steal = 0, .flags = {}};
  CHECK(disturbance_lines(d) ==
        "# Disturbance: foreign cpu 0.89 cores, steal 0.00, throttled 0.00 s, involuntary switches 0/s, spin canary "
        "p90/p10 1.00, copy 1.00; too short a run to judge\n");
  d.foreign_cpu = 0.05;
  CHECK(disturbance_lines(d).find("# Undisturbed: ") == 0);
}

TEST_CASE("Where ranks share cores nobody is named", "[rank_table][unit]") {
  CellStats cell = late_cell(4, 3);
  cell.shared_cores = true;
  CHECK(rank_table("8 B in-place", cell).find("# 8 B in-place: no straggler named: ranks share cores") == 0);
  RunInfo info = sample_stat_run();
  info.config.per_rank = true;
  StatNotes notes(info.config, plan_of({2}));
  Row row = row_of(2);
  row.out_of_place.stats = cell;
  notes.add(row);
  CHECK(notes.text(std::nullopt).find("traggler in") == std::string::npos);
}

TEST_CASE("Sixteen ranks are shown, the latest first, and the rest is said to exist", "[rank_table][unit]") {
  const std::string text = rank_table("8 B out-of-place", late_cell(64, 40));
  CHECK(text.find("# 8 B out-of-place: straggler: rank 40 on node20 last in 94 % of samples, 120.00 us late\n") == 0);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 1 + 16 + 1);
  CHECK(text.find("... and 48 more ranks, none of them later; -J FILE.json has all 64\n") != std::string::npos);
  CHECK(text.find("    40") < text.find("    63"));  // next: 6.3 us
  CHECK(text.find("    48  ") == std::string::npos);
  CHECK(text.find("    49  ") != std::string::npos);
}
