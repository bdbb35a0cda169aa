// Damaged plans, platform tables and results of accept: an Error(bad_config) of one line, or what could be read holds
// together; nothing else.

#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/record/accept_result.h"
#include "driver/accept/judge_acceptance.h"
#include "driver/accept/read_accept_plan.h"
#include "fuzz_main.h"

using namespace busbar;

const long kFuzzRounds = 6000;

namespace {

std::string check_plan(std::string_view input) {
  const AcceptPlan plan = read_accept_plan(input, "fuzz.yaml");
  for (const PlanCell& cell : plan.cells) {
    if (cell.collective == nullptr || cell.stages.empty() || cell.name.empty()) return "a cell is not complete";
    if (!cell.config.stat) return "a cell without --stat";
  }
  if (plan.digest != read_accept_plan(plan.text, plan.file).digest) return "another digest when read again";
  return {};
}

/// What can be read can be judged and told, and written again.
std::string check_result(std::string_view input) {
  AcceptResult result = read_accept_json(input, "fuzz.json");
  if (!result.plan.text.empty()) result.plan = read_accept_plan(result.plan.text, result.plan.file);
  const AcceptResult baseline = result;
  judge_acceptance(result, {}, &baseline);
  if (accept_text(result).empty()) return "no verdict";
  read_accept_json(accept_json(result), "again.json");
  return {};
}

std::string a_result() {
  AcceptResult result;
  result.plan = read_accept_plan(
      "stages: [per-host, whole]\ncells:\n  - name: a\n    collective: all_reduce\n    criteria: {latency: 1s, "
      "time-spread: 5%, dips: 5%, host-spread: 5%, rank-spread: 5%, ceiling: {fail: 50%, of: 3}}\n",
      "p.yaml");
  result.backend = "mpi";
  result.hosts = {{"n0", {0}, "host memory"}, {"n1", {1}, "host memory"}};
  for (const char* scope : {"n0", "n1", "all"}) {
    Cell m;
    m.cell = "a";
    m.stage = std::string(scope) == "all" ? Stage::whole : Stage::per_host;
    m.scope = scope;
    m.collective = "all_reduce";
    m.nranks = 2;
    m.nhosts = 2;
    m.samples = 100;
    m.median_s = 1e-3;
    m.interval_s = Interval{0.9e-3, 1.1e-3};
    m.busbw = 1;
    m.busbw_interval = Interval{0.9, 1.1};
    m.epoch_medians_s = {1e-3, 1e-3, 1.1e-3, 2e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3};
    m.wrong = 0;
    m.ranks = {{0, "n0", 1e-3, 0, 0, 0.1}, {1, "n1", 1e-3, 1e-4, 1e-3, 0.8}, {2, "n1", 1e-3, 1e-5, 1e-4, 0.1}};
    result.cells.push_back(m);
  }
  // clang 14 does not believe that the nested type can be made from nothing.
  AcceptResult::Located& located = result.located.emplace(AcceptResult::Located{});
  located.unit = UnitKind::host;
  located.units = {"n0", "n1"};
  located.matrix = {{0, 1, 1e9, 1, false}};
  located.finding.culprits.emplace_back().units = {1};
  return accept_json(result);
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const EmbeddedFile& file : embedded_plans()) {
    if (file.text.find("\ncells:") != std::string_view::npos) seeds.emplace_back(file.text);
  }
  seeds.emplace_back(
      "gpu: X\ngpus-per-node: 8\nexpect:\n  - {collective: all_reduce, sizes: [1G, 2G], busbw: 3, kind: "
      "measured, source: me}\n");
  seeds.push_back(a_result());
  return seeds;
}

std::string fuzz_one(std::string_view input) {
  try {
    if (input.starts_with("{\"kind\"")) return check_result(input);
    if (input.starts_with("gpu")) {
      read_platform(input, "fuzz.yaml");
      return {};
    }
    return check_plan(input);
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_config) return "an odd exit code";
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) return "a message of several lines";
    return {};
  } catch (const std::exception& error) {
    return std::string("thrown: ") + error.what();
  }
}
