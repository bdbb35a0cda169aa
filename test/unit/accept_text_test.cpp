// Would catch: a verdict that is not the first word, a culprit that is not named, hundreds of rows that bury it, a line
// wider than a terminal, a skip without its reason.

#include "accept_fixture.h"
#include "driver/accept/judge_acceptance.h"
#include "driver/accept/read_accept_plan.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <sstream>

using namespace busbar;
using Catch::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::string text_of(AcceptResult r) {
  judge_acceptance(r, {}, nullptr);
  const std::string text = accept_text(r);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 120);
  }
  return text;
}

AcceptResult many_hosts(double factor) {
  AcceptResult r = accept_result();
  r.plan = read_accept_plan(
      "stages: [per-host]\nexpect: {platform: none}\ncells:\n  - name: a\n    collective: all_reduce\n"
      "    sizes: 1M\n    criteria: {latency: {warn: 2ms, fail: 3ms}}\n",
      "plan.yaml");
  r.cells.clear();
  r.hosts.clear();
  for (int i = 0; i < 300; ++i) {
    const std::string host = "node" + std::to_string(i);
    r.hosts.push_back({host, {i}, "host memory"});
    r.cells.push_back(slower(measured_cell("a", Stage::per_host, host), i < 200 ? factor : 1));
  }
  return r;
}

}  // namespace

TEST_CASE("a pass says so first, and what it was", "[accept][text]") {
  const std::string text = text_of(accept_result("{latency: 2ms}"));
  CHECK_THAT(text, StartsWith("PASS: all 5 criteria judged are met\n"));
  CHECK_THAT(text, Contains("4 ranks on node[0,1]") && Contains("Open MPI 4.1.4"));
  CHECK_THAT(text, !Contains("failed") && !Contains("warnings"));
}

TEST_CASE("what was measured is a line for each size, of several hosts with the slowest", "[accept][text]") {
  const std::string title = "  stage    cell type          size place  time[us]   +-%    busbw #wrong\n";
  const std::string one = text_of(accept_result());
  CHECK_THAT(one, Contains("measured\n" + title +
                           "  whole    a    float sum    1 MiB out     1000.00   1.0     1.00      0\n"));
  AcceptResult r = many_hosts(1);
  r.cells[7] = slower(r.cells[7], 2);
  r.cells[9].wrong.reset();
  CHECK_THAT(text_of(r), Contains("  per-host a    float sum    1 MiB out     1000.00           1.00    N/A"
                                  "  300 hosts, slowest node7: 2000.00 us\n"));
  r = accept_result();
  for (int i = 1; i < 4; ++i) {
    r.cells.push_back(slower(measured_cell("a"), i == 3 ? 5 : 1));
    r.cells.back().repetition = i;
  }
  CHECK_THAT(text_of(r), Contains("1 MiB out     1000.00           1.00      0  4 times\n"));
  r.cells.clear();
  CHECK_THAT(text_of(r), !Contains("measured\n"));
}

TEST_CASE("where ranks share cores the next step is fewer of them", "[accept][text]") {
  AcceptResult r = accept_result();
  r.cells.front().shared_cores = true;
  r.outcome = Outcome::inconclusive;
  CHECK_THAT(accept_text(r), Contains("  next: start at most one rank per core: "));
  r.outcome = Outcome::pass;
  CHECK_THAT(accept_text(r), !Contains("next: "));
}

TEST_CASE("a failure names culprit and next step before any detail", "[accept][text]") {
  AcceptResult r = accept_result("{latency: 2ms, busbw: expected}");
  r.cells[0].wrong = 7;
  r.cells[0].wrong_texts = {"rank 3 on node1: got 1, want 2"};
  r.cells[0].wrong_ranks = {3};
  r.remarks = {"16 ranks share 2 cores"};
  const std::string text = text_of(r);
  CHECK_THAT(text, StartsWith("FAIL: of 5 criteria judged: 1 failed; 1 skipped\n  blamed: node1: wrong\n"
                              "  next: take node1 out and run again"));
  CHECK_THAT(
      text,
      Contains("\nfailed\n  FAIL          wrong, whole/a 1 MiB -> node1\n                7 wrong elements; wanted 0\n"
               "                rank 3 on node1: got 1, want 2\n"));
  CHECK_THAT(text, Contains("note: 16 ranks share 2 cores"));
  CHECK_THAT(text, Contains("\nskipped\n  1 x busbw: host memory"));
}

TEST_CASE("hundreds of hosts are a line", "[accept][text]") {
  const std::string text = text_of(many_hosts(4));
  CHECK_THAT(text, StartsWith("FAIL: of 602 criteria judged: 200 failed\n"));
  CHECK_THAT(text, Contains("latency, per-host/a 1 MiB, node[0-199]"));
  CHECK_THAT(text, Contains("node0: 4 ms [3.96 ms, 4.04 ms]; wanted <= 3 ms (warn 2 ms)"));
  CHECK(std::count(text.begin(), text.end(), '\n') < 30);
  CHECK_THAT(text_of(many_hosts(2.5)), StartsWith("WARN: ") && Contains("\nwarnings\n"));
}

TEST_CASE("a hang is told in its own words", "[accept][text]") {
  AcceptResult r = accept_result();
  r.failures = {{Stage::whole, "a", "PROCESS_STOPPED", std::string(300, 'x') + " and more words", {"node1"}, {3}, 4}};
  AcceptResult copy = r;
  judge_acceptance(copy, {}, nullptr);
  CHECK_THAT(accept_text(copy), Contains("culprit: node1, PROCESS_STOPPED:"));
  CHECK_THAT(accept_text(copy), Contains("next: run busbar doctor --local on node1"));
}

TEST_CASE("what could not be told is told apart from what failed", "[accept][text]") {
  AcceptResult r = accept_result("{latency: 1ms}");
  r.cells[0].stop = StopReason::noisy;
  CHECK_THAT(text_of(r), StartsWith("INCONCLUSIVE: of 5 criteria judged: 1 inconclusive\n  next: run again on quiet") &&
                             Contains("\nundecided\n"));
  r.cells.clear();
  r.counters_read = false;
  r.skipped = {{"a", Stage::whole, "all", "float", "sum", "no such thing"}};
  CHECK_THAT(text_of(r), StartsWith("INCONCLUSIVE: ") && Contains("1 x completed: no such thing"));
}
