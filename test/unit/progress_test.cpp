// The bugs these would catch: a time left that is off by the ratio of the largest to the smallest message, and progress
// that clutters a short run or a log file.

#include "common/output/progress.h"

#include "golden.h"
#include "report_fixture.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

using namespace busbar;
using namespace std::chrono_literals;

TEST_CASE("The time left follows the work left, not the rows left", "[progress][unit]") {
  CHECK(time_left_s({.rows_done = 9, .rows_total = 10, .work_done = 10, .work_total = 100}, 5) == 45);
  CHECK(time_left_s({.rows_done = 1, .rows_total = 1, .work_done = 7, .work_total = 7}, 5) == 0);
  CHECK(time_left_s({.rows_done = 0, .rows_total = 10, .work_done = 0, .work_total = 100}, 5) < 0);
  CHECK(time_left_s({.rows_done = 5, .rows_total = 0, .work_done = 10, .work_total = 0}, 5) < 0);  // -N 0
  CHECK(row_work(sample_case(0)) == 262144);
  CHECK(row_work(sample_case(65536)) == 2 * 262144);
}

TEST_CASE("Only a run that is or promises to be long shows progress", "[progress][unit]") {
  const Case now = sample_case(1048576);
  SweepState state{.rows_done = 12, .rows_total = 24, .work_done = 10, .work_total = 100};
  CHECK(progress_line(state, now, 0.9).empty());  // too early to judge
  CHECK(progress_line(state, now, 20).find("row 13 of 24 (4194304 B float sum), 10 %, about 3 min 00 s left") == 0);
  CHECK(progress_line(state, now, 1).find("about 9 s left") != std::string::npos);
  state.work_done = 60;
  CHECK(progress_line(state, now, 5).empty());  // 8 s in all
  state.work_done = 1;
  CHECK(progress_line(state, now, 100).find("about 2 h 45 min left") != std::string::npos);
  state = {.rows_done = 3, .rows_total = 0, .work_done = 10, .work_total = 0};
  CHECK(progress_line(state, now, 9).empty());
  CHECK(progress_line(state, now, 75) == "row 4 (4194304 B float sum), 1 min 15 s so far");
}

TEST_CASE("A line fits a narrow terminal", "[progress][unit]") {
  Case now = sample_case();
  now.nbytes = ~std::size_t{0};
  now.dtype = DType::bfloat16;
  now.op = Op::mulsum;
  const SweepState state{.rows_done = 123456789, .rows_total = 1234567890, .work_done = 1, .work_total = 1e12};
  CHECK(progress_line(state, now, 1e5).size() <= 79);
}

TEST_CASE("The line is rewritten in place and erased; without a terminal nothing is printed", "[progress][unit]") {
  const TempDir dir;
  const std::string name = dir.file("stderr");
  const Clock::time_point start{};
  Plan plan = sample_plan();
  plan.cases = {sample_case(2), sample_case(4), sample_case(8)};
  for (bool enabled : {true, false}) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(name.c_str(), "w"), &std::fclose);
    {
      Progress progress(plan, 2, enabled, out.get(), start);
      progress.begin_row(plan.cases[0], start);
      progress.end_row(plan.cases[0]);
      progress.begin_row(plan.cases[1], start + 12s);
      progress.erase();
      progress.erase();
      progress.end_row(plan.cases[1]);
    }
    // Six rows in all, weighed almost alike.
    const std::string line = "row 2 of 6 (16 B float sum), 16 %, about 1 min 00 s left";
    CHECK(read_text(name) == (enabled ? line + "\r" + std::string(line.size(), ' ') + "\r" : ""));
  }
}

TEST_CASE("A pass says how many cells are done and how long it may take", "[progress][unit]") {
  CHECK(pass_line(7, 18, 48, 34, 120) == "pass 7, 18 of 48 cells done, 34 s of at most 2 min 00 s");
  CHECK(pass_line(1, 0, 48, 0.9, 120).empty());
  CHECK(pass_line(123456789, 123456789, 123456789, 1e9, 1e9).size() <= 79);

  const TempDir dir;
  const std::string name = dir.file("stderr");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(name.c_str(), "w"), &std::fclose);
  {
    Progress progress(sample_plan(), 1, true, out.get());
    progress.pass(1, 0, 4, 1.0, 10);
    progress.pass(2, 0, 4, 1.4, 10);  // too soon for the eye
    progress.pass(3, 1, 4, 1.5, 10);
  }
  const auto blank = [](const std::string& line) { return "\r" + std::string(line.size(), ' ') + "\r"; };
  const std::string first = "pass 1, 0 of 4 cells done, 1 s of at most 10 s";
  const std::string third = "pass 3, 1 of 4 cells done, 2 s of at most 10 s";
  CHECK(read_text(name) == first + blank(first) + third + blank(third));
}

TEST_CASE("Outcomes are colored, and only as whole words", "[progress][unit]") {
  CHECK(coloured("PASS: 8 hosts, n-OK, BYPASS\n") == "\033[1;32mPASS\033[0m: 8 hosts, n-OK, BYPASS\n");
  CHECK(coloured(" : 0 OK") == " : 0 \033[1;32mOK\033[0m");
  CHECK(coloured("7 FAILED.") == "7 \033[1;31mFAILED\033[0m.");
}
