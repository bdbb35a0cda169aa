// Would catch: a misspelt key or criterion that is silently no criterion, an error without its line, bounds that can
// never warn, a cell that no stage measures, and a plan that --resume takes for another.

#include "common/record/accept_plan.h"

#include "common/backends/backend_traits.h"
#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "driver/accept/read_accept_plan.h"

#include <catch2/catch.hpp>

#include <string>

using namespace busbar;
using Catch::Contains;
using Catch::Matchers::StartsWith;

namespace {

AcceptPlan read(const std::string& text) { return read_accept_plan(text, "p.yaml"); }

std::string complaint(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_config);
    return error.what();
  }
  return "no error";
}

/// A plan of one cell with these lines in it.
std::string with_cell(const std::string& lines) {
  return "schema: 1\nstages: [whole]\ncells:\n  - collective: all_reduce\n" + lines;
}

}  // namespace

TEST_CASE("a plan says what is expected, where it runs and what is asked of each cell", "[accept][plan]") {
  const AcceptPlan plan = read(
      "schema: 1\n"
      "title: new racks\n"
      "expect: {platform: none, baseline: old.json, baseline-margin: {warn: 3%, fail: 6%}, gpus: required}\n"
      "stages: [doctor, per-host, whole]\n"
      "max-time: 20min\n"
      "stage_timeout: 300\n"
      "locate-on-fail: false\n"
      "keep-results: false\n"
      "defaults:\n"
      "  rel-ci: 2%\n"
      "  sizes: [1K, 1M]\n"
      "  criteria: {latency: 5ms, time-spread: {warn: 5%}}\n"
      "cells:\n"
      "  - name: big\n"
      "    collective: all_reduce\n"
      "    minbytes: 1M\n"
      "    maxbytes: 4M\n"
      "    stepfactor: 2\n"
      "    datatype: [float, half]\n"
      "    memory: gpu\n"
      "    env: {NCCL_ALGO: Ring, nccl.ctas: 8}\n"
      "    criteria: {busbw: {warn: 380, fail: 350}, ceiling: {fail: 80%, of: 400}, latency: 1ms, wrong: ignore,\n"
      "               host-spread: 5%, rank-spread: 9%, counters: ignore}\n"
      "  - collective: all_gather\n"
      "    stages: per-host\n"
      "  - collective: all_gather\n");
  CHECK(plan.title == "new racks");
  CHECK(plan.platform.empty());
  CHECK(plan.baseline == "old.json");
  CHECK(*plan.baseline_margin.fail == Approx(0.06));
  CHECK(plan.needs_gpus);
  CHECK(plan.stages == std::vector{Stage::doctor, Stage::per_host, Stage::whole});
  CHECK(plan.max_time_s == 1200);
  CHECK(plan.stage_timeout_s == 300);
  CHECK_FALSE(plan.locate_on_fail);
  CHECK_FALSE(plan.keeps_results);
  REQUIRE(plan.cells.size() == 3);

  const PlanCell& big = plan.cells[0];
  CHECK(big.name == "big");
  CHECK(big.line == 14);
  CHECK(big.memory == CellMemory::gpu);
  CHECK(big.stages == std::vector{Stage::per_host, Stage::whole});
  CHECK(big.config.sizes.empty());  // its own range, not the defaults' list
  CHECK(big.config.maxbytes == 4 << 20);
  CHECK(big.config.dtypes.size() == 2);
  CHECK(big.config.rel_ci == Approx(0.02));
  CHECK(big.config.stat);
  CHECK(big.config.per_rank);   // rank-spread
  CHECK(big.config.show_algo);  // ceiling
  CHECK(big.environment.size() == 2);
  CHECK(*big.criteria.busbw->warn == 380);
  CHECK(*big.criteria.busbw->fail == 350);
  CHECK(*big.criteria.of_ceiling->fail == Approx(0.8));
  CHECK(big.criteria.ceiling_busbw == 400);
  CHECK(*big.criteria.latency->fail == Approx(1e-3));
  CHECK(*big.criteria.time_spread->warn == Approx(0.05));  // from the defaults
  CHECK_FALSE(big.criteria.wrong);
  CHECK_FALSE(big.criteria.counters);

  CHECK(plan.cells[1].name == "all_gather");
  CHECK(plan.cells[1].stages == std::vector{Stage::per_host});
  CHECK(plan.cells[1].config.sizes == std::vector<std::uint64_t>{1024, 1 << 20});
  CHECK_FALSE(plan.cells[1].config.per_rank);
  CHECK(plan.cells[1].criteria.wrong);
  CHECK(*plan.cells[1].criteria.latency->fail == Approx(5e-3));
  CHECK(plan.cells[2].name == "all_gather-2");
}

TEST_CASE("wrong elements and counters are criteria unless the plan says otherwise", "[accept][plan]") {
  const AcceptPlan plan = read(with_cell(""));
  CHECK(plan.cells[0].criteria.wrong);
  CHECK(plan.cells[0].criteria.counters);
  CHECK(plan.platform == "auto");
  CHECK_FALSE(plan.needs_gpus);
}

TEST_CASE("every error names file, line, and what would be right", "[accept][plan]") {
  const auto says = [](const std::string& text, const char* start, const char* part) {
    INFO(text);
    const std::string message = complaint(text);
    CHECK_THAT(message, StartsWith(start) && Contains(part));
    CHECK_THAT(message, !Contains("\n"));
  };
  says("schema: 2\n", "p.yaml:1:", "schema '2' is not known");
  says("schema: 1\ntilte: a\n", "p.yaml:2: unknown key", "did you mean title?");
  says("stages: [whole]\nstages: [whole]\n", "p.yaml:2:", "given twice");
  says("stages: [hole]\n", "p.yaml:1: unknown stage", "did you mean whole?");
  says("stages: [whole, whole]\n", "p.yaml:1:", "given twice");
  says("expect: {platform: h20}\n", "p.yaml:1: unknown platform", "did you mean h200?");
  says("expect: {gpus: yes}\n", "p.yaml:1:", "optional required");
  says("expect: {gpu: required}\n", "p.yaml:1:", "did you mean gpus?");
  says("expect: 3\n", "p.yaml:1:", "not a map");
  says("max-time: soon\n", "p.yaml:1: max-time:", "not a duration");
  says("stages: [whole]\n", "p.yaml:1:", "no cell is measured in whole");
  says("cells: 3\n", "p.yaml:1:", "write a list");
  says("cells:\n  - all_reduce\n", "p.yaml:2:", "a cell is a map");
  says("stages: [whole]\ncells:\n  - name: a\n", "p.yaml:3:", "without collective");
  says("stages: [whole]\ncells:\n  - collective: allreduce\n", "p.yaml:3: unknown collective",
       "did you mean all_reduce?");
  says(with_cell("    minbites: 8\n"), "p.yaml:5: unknown key", "did you mean minbytes?");
  says(with_cell("    backend: mpi\n"), "p.yaml:5: unknown key 'backend'", "valid keys: stages memory");
  says(with_cell("    memory: ram\n"), "p.yaml:5:", "any gpu host");
  says(with_cell("    sizes: [1K]\n    minbytes: 8\n"), "p.yaml:4:", "--sizes");
  says(with_cell("    minbytes: 64M\n"), "p.yaml:4: cell: -b 64M", "");
  says(with_cell("    datatype: floot\n"), "p.yaml:5:", "float");
  says(with_cell("    stages: per-host\n"), "p.yaml:4:", "not among the plan's stages");
  says(with_cell("    stages: pairs\n"), "p.yaml:4:", "measured in per-host and whole");
  says(with_cell("    name: 'a b'\n"), "p.yaml:5: name:", "letters");
  says(with_cell("    env: {'': 1}\n"), "p.yaml:5:", "not the name of a setting");
  says(with_cell("    criteria: {bandwidth: 3}\n"), "p.yaml:5: unknown criterion", "busbw ceiling latency");
  says(with_cell("    criteria: {busbw: lots}\n"), "p.yaml:5: busbw:", "");
  says(with_cell("    criteria: {busbw: 0}\n"), "p.yaml:5: busbw:", "above 0");
  says(with_cell("    criteria: {busbw: {}}\n"), "p.yaml:5: busbw:", "give warn, fail or both");
  says(with_cell("    criteria: {busbw: {warn: 300, fail: 350}}\n"), "p.yaml:5: busbw:", "could never warn");
  says(with_cell("    criteria: {latency: {warn: 2ms, fail: 1ms}}\n"), "p.yaml:5: latency:", "could never warn");
  says(with_cell("    criteria: {ceiling: {of: 100}}\n"), "p.yaml:5: ceiling:", "warn");
  says(with_cell("    criteria: {wrong: 3}\n"), "p.yaml:5: unknown wrong", "0 ignore");
  says(with_cell("    criteria: {counters: 0}\n"), "p.yaml:5: unknown counters", "unmoved ignore");
  says(with_cell("    criteria: {host-spread: {wran: 3%}}\n"), "p.yaml:5:", "did you mean warn?");
  says(with_cell("    criteria: {drift: 3%}\n"), "p.yaml:4: drift", "repeat-for");
  says("repeat-for: 4h\nstages: [doctor]\n", "p.yaml:1:", "repeats what is measured");
  says(with_cell("    minbytes: 1\n    maxbytes: 1G\n    stepbytes: 10K\n"), "p.yaml:4:", "rows");
  says(with_cell("  - collective: all_reduce\n    name: a\n  - collective: reduce\n    name: a\n"),
       "p.yaml:7:", "two cells are called");
  says("expect: {platform: none}\n" + with_cell("    criteria: {busbw: expected}\n").substr(10),
       "p.yaml:1:", "expects no platform");
}

TEST_CASE("a cell may reuse its buffers, and asks for something else then", "[accept][plan]") {
  const AcceptPlan rotating = read(with_cell("    sizes: 1M\n"));
  CHECK(rotating.cells[0].config.buffers == BufferUse::rotate);
  const AcceptPlan reusing = read(with_cell("    sizes: 1M\n    buffers: reuse\n"));
  CHECK(reusing.cells[0].config.buffers == BufferUse::reuse);
  CHECK(reusing.digest != rotating.digest);
  CHECK_THAT(complaint(with_cell("    buffers: both\n")), Contains("choose from: rotate reuse"));
  CHECK_THAT(complaint(with_cell("    mpi-threads: multiple\n")), Contains("unknown key 'mpi-threads'"));
}

TEST_CASE("what a process reads once needs a launch", "[accept][plan]") {
  AcceptPlan plan = read(with_cell("    env: {NCCL_ALGO: Ring}\n"));
  CHECK_NOTHROW(check_environment_needs(plan, false));
  plan = read(with_cell("    env: {NCCL_NVLS_ENABLE: 0}\n"));
  CHECK_NOTHROW(check_environment_needs(plan, true));
  try {
    check_environment_needs(plan, false);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), StartsWith("p.yaml:4: cell all_reduce: env: NCCL_NVLS_ENABLE") && Contains("--launch") &&
                                 Contains("NCCL_ALGO=^NVLS"));
  }
}

TEST_CASE("plans with the same keys and values have equal digests, others do not", "[accept][plan]") {
  const std::uint64_t one = read(with_cell("    sizes: 1K\n")).digest;
  CHECK(one == read("# a comment\n" + with_cell("    sizes:   '1K'\n\n")).digest);
  CHECK(one != read(with_cell("    sizes: 2K\n")).digest);
  CHECK(one != read(with_cell("    sizes: 1K\n    criteria: {latency: 1s}\n")).digest);
  CHECK(one != read(with_cell("    sizes: 1K\n    env: {NCCL_ALGO: Ring}\n")).digest);
  CHECK(one != read("max-time: 3\n" + with_cell("    sizes: 1K\n")).digest);
  CHECK(read("max-time: 3\nstages: [doctor]\n").digest == read("stages: [doctor]\nmax-time: 3\n").digest);
  CHECK(one != read("locate-looks-time: 0\n" + with_cell("    sizes: 1K\n")).digest);
}

TEST_CASE("a cell for GPUs is not measured on host memory, and says so", "[accept][plan]") {
  PlanCell cell = read(with_cell("    memory: gpu\n")).cells[0];
  CHECK(why_not_here(cell, traits_of("nccl")).empty());
  CHECK_THAT(why_not_here(cell, traits_of("mpi")), Contains("for GPUs"));
  cell.memory = CellMemory::host;
  CHECK_THAT(why_not_here(cell, traits_of("nccl")), Contains("for host memory"));
}

TEST_CASE("the plans that are shipped can be read", "[accept][plan]") {
  int plans = 0;
  for (const EmbeddedFile& file : embedded_plans()) {
    if (file.text.find("\ncells:") == std::string_view::npos) continue;
    INFO(file.name);
    CHECK_NOTHROW(check_environment_needs(read_accept_plan(file.text, std::string(file.name)), false));
    ++plans;
  }
  CHECK(plans >= 4);
}

TEST_CASE("a plan may bound the time until the job's communicator can be used", "[accept][plan]") {
  const auto plan_of = [](const std::string& line) {
    return read_accept_plan("stages: [whole]\n" + line + "cells:\n  - {collective: all_reduce, sizes: 1K}\n",
                            "plan.yaml");
  };
  const AcceptPlan plan = plan_of("init: {warn: 20s, fail: 1min}\n");
  REQUIRE(plan.init);
  CHECK(*plan.init->warn == 20);
  CHECK(*plan.init->fail == 60);
  CHECK(*plan_of("init: 30\n").init->fail == 30);
  const AcceptPlan unasked = plan_of("");
  CHECK_FALSE(unasked.init);
  CHECK(plan.digest != unasked.digest);
  CHECK_THROWS_WITH(plan_of("init: {warn: 60, fail: 20}\n"), Contains("warn is beyond fail"));
  CHECK_THROWS_WITH(plan_of("init: 0\n"), Contains("must be above 0"));
}
