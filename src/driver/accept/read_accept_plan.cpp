#include "driver/accept/read_accept_plan.h"

#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/sequences.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/measure/plan.h"
#include "driver/compare/launch_rounds.h"
#include "driver/compare/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

namespace busbar {
namespace {

/// More is a slip: every row is a criterion that somebody reads.
constexpr std::size_t kMaxCells = 500;
constexpr std::size_t kMaxPlanRows = 20'000;

std::string read_platform_name(const YamlValue& value) {
  std::vector<std::string_view> valid{"auto", "none"};
  for (const EmbeddedFile& file : embedded_platforms()) valid.push_back(file.name.substr(0, file.name.rfind('.')));
  const std::string_view platform = valid[value.word(valid)];
  return std::string(platform == "none" ? "" : platform);
}

std::string read_baseline(const YamlValue& value) {
  std::string file = value.text();
  if (file.empty()) value.fail("baseline: the file name is empty");
  return file;
}

bool read_needs_gpus(const YamlValue& value) {
  const std::string text = value.text();
  if (text != "required" && text != "optional") {
    value.fail(fmt::format("gpus: {} is none of: required optional", in_quotes(text)));
  }
  return text == "required";
}

void read_expect(const YamlValue& map, AcceptPlan& plan) {
  map.read({{"platform", [&](const YamlValue& v) { plan.platform = read_platform_name(v); }},
            {"baseline", [&](const YamlValue& v) { plan.baseline = read_baseline(v); }},
            {"baseline-margin", [&](const YamlValue& v) { plan.baseline_margin = read_share_bound(v); }},
            {"gpus", [&](const YamlValue& v) { plan.needs_gpus = read_needs_gpus(v); }}});
}

/// What no single cell can tell; fills in what it leaves open.
void finish_cell(const YamlValue& at, const AcceptPlan& plan, PlanCell& cell) {
  if (cell.stages.empty()) {
    for (Stage stage : plan.stages) {
      if (stage == Stage::per_host || stage == Stage::whole) cell.stages.push_back(stage);
    }
    if (cell.stages.empty()) at.fail("the plan's stages measure no cells: add per-host or whole to stages");
  }
  for (Stage stage : cell.stages) {
    if (stage != Stage::per_host && stage != Stage::whole) {
      at.fail(fmt::format("stages: a cell is measured in per-host and whole, not in {}", name(stage)));
    }
    if (!contains(plan.stages, stage)) {
      at.fail(fmt::format("stages: {} is not among the plan's stages: add it there or leave it out", name(stage)));
    }
  }
  const Criteria& criteria = cell.criteria;
  if (criteria.drift && plan.repeat_for_s <= 0) {
    at.fail("drift is judged over repetitions: add repeat-for to the plan, or leave it out");
  }
  cell.config.stat = true;
  cell.config.min_time_s = std::min(cell.config.min_time_s, cell.config.cell_time_s);
  cell.config.per_rank = criteria.rank_spread.has_value();
  cell.config.show_algo = criteria.busbw_expected || criteria.of_ceiling;
  at.checked([&] { validate(cell.config); });
}

std::size_t rows(const YamlValue& at, const PlanCell& cell) {
  std::size_t count = 0;
  at.checked([&] { count = planned_cells(cell.config, *cell.collective); });
  return count;
}

/// "all_reduce", "all_reduce-2", ... for cells without names of their own.
std::string default_name(const PlanCell& cell, const std::set<std::string>& taken) {
  std::string name(cell.collective->name);
  for (int n = 2; taken.count(name) != 0; ++n) name = fmt::format("{}-{}", cell.collective->name, n);
  return name;
}

void read_cells(const YamlValue& cells, const PlanCell& defaults, AcceptPlan& plan) {
  if (!cells.node.IsSequence()) cells.fail("cells: write a list, each entry '- collective: NAME' and its options");
  if (cells.node.size() > kMaxCells) cells.fail(fmt::format("cells: more than {}", kMaxCells));
  std::set<std::string> taken;
  std::vector<YAML::Mark> marks;
  for (const YAML::Node& entry : cells.node) {
    marks.push_back(entry.Mark());
    const YamlValue cell{cells.file, marks.back(), entry, "cell"};
    plan.cells.push_back(read_plan_cell(cell, defaults, false));
    const std::string& name = plan.cells.back().name;
    if (!name.empty() && !taken.insert(name).second) {
      cell.fail(fmt::format("name: two cells are called {}", in_quotes(name)));
    }
  }
  std::size_t total = 0;
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    PlanCell& cell = plan.cells[i];
    if (cell.name.empty()) taken.insert(cell.name = default_name(cell, taken));
    const YamlValue at{cells.file, marks[i], cells.node, "cell"};
    finish_cell(at, plan, cell);
    total += rows(at, cell) * cell.stages.size();
    if (total > kMaxPlanRows) {
      at.fail(
          fmt::format("more than {} rows to judge so far: a plan names the sizes that matter, with stepfactor or sizes",
                      kMaxPlanRows));
    }
  }
}

void check_stages_have_cells(const YamlValue& root, const AcceptPlan& plan) {
  for (Stage stage : {Stage::per_host, Stage::whole}) {
    const auto measures = [&](const PlanCell& cell) { return contains(cell.stages, stage); };
    if (!contains(plan.stages, stage) || std::ranges::any_of(plan.cells, measures)) continue;
    root.fail(fmt::format("stages: no cell is measured in {}: add cells, or leave the stage out", name(stage)));
  }
}

void check_expectations(const YamlValue& root, const AcceptPlan& plan) {
  for (const PlanCell& cell : plan.cells) {
    if (!cell.criteria.busbw_expected || !plan.platform.empty()) continue;
    root.fail(
        fmt::format("cell {}: busbw: expected, but the plan expects no platform: set expect: platform to auto or a "
                    "name, or give busbw a number",
                    cell.name));
  }
}

void read_root(const YamlValue& root, AcceptPlan& plan) {
  if (!root.node.IsMap()) {
    root.fail("not a plan: write lines such as 'cells:' and below it '- collective: all_reduce'");
  }
  PlanCell defaults;
  // What cells refer to may stand after them in the file.
  YAML::Node cells;
  YAML::Mark cells_mark;
  bool has_cells = false;
  root.read({{"schema", check_yaml_schema},
             {"title", [&](const YamlValue& v) { plan.title = v.text(); }},
             {"expect", [&](const YamlValue& v) { read_expect(v, plan); }},
             {"stages", [&](const YamlValue& v) { plan.stages = read_stages(v); }},
             {"init", [&](const YamlValue& v) { plan.init = read_time_bound(v); }},
             {"max-time", [&](const YamlValue& v) { plan.max_time_s = v.parsed(parse_duration); }},
             {"repeat-for", [&](const YamlValue& v) { plan.repeat_for_s = v.parsed(parse_duration); }},
             {"stage-timeout", [&](const YamlValue& v) { plan.stage_timeout_s = v.parsed(parse_duration); }},
             {"locate-on-fail", [&](const YamlValue& v) { plan.locate_on_fail = v.parsed(parse_switch); }},
             {"locate-looks-time", [&](const YamlValue& v) { plan.locate_looks_s = v.parsed(parse_duration); }},
             {"keep-results", [&](const YamlValue& v) { plan.keeps_results = v.parsed(parse_switch); }},
             {"defaults", [&](const YamlValue& v) { defaults = read_plan_cell(v, {}, true); }},
             {"cells", [&](const YamlValue& v) {
                cells.reset(v.node);
                cells_mark = v.mark;
                has_cells = true;
              }}});
  if (plan.stages.empty()) plan.stages = {Stage::doctor, Stage::per_host, Stage::pairs, Stage::whole};
  if (plan.repeat_for_s > 0 && plan.stages == std::vector{Stage::doctor}) {
    root.fail("repeat-for repeats what is measured: add per-host, pairs or whole to stages");
  }
  if (has_cells) read_cells({root.file, cells_mark, cells, "cells"}, defaults, plan);
  check_stages_have_cells(root, plan);
  check_expectations(root, plan);
}

}  // namespace

AcceptPlan read_accept_plan(std::string_view text, const std::string& file_name) {
  AcceptPlan plan;
  plan.file = file_name;
  plan.text = text;
  plan.platform = "auto";
  with_yaml(file_name, text, [&](const YamlValue& root) { read_root(root, plan); });
  plan.digest = digest_of(plan);
  return plan;
}

namespace {

std::string text_of(const std::optional<Bound>& bound) {
  const auto number = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "-"; };
  return bound ? number(bound->warn) + "/" + number(bound->fail) : "none";
}

std::string text_of(const Criteria& c) {
  return fmt::format("busbw {} {} ceiling {} of {} latency {} wrong {} spreads {} {} {} {} {} counters {}",
                     text_of(c.busbw), c.busbw_expected, text_of(c.of_ceiling), c.ceiling_busbw, text_of(c.latency),
                     c.wrong, text_of(c.time_spread), text_of(c.dips), text_of(c.drift), text_of(c.host_spread),
                     text_of(c.rank_spread), c.counters);
}

/// Everything that a cell may set.
std::string text_of(const Config& c) {
  const auto number = [](auto word) { return static_cast<int>(word); };
  return fmt::format(
      "{} {} {} {} {} op {} dtype {} root {} {} placement {} check {} warmup {} unalign {} register {} timeout {} stat "
      "{} {} {} {} {}{}{}",
      c.minbytes, c.maxbytes, c.stepbytes, c.stepfactor, c.sizes, mapped(c.ops, number), mapped(c.dtypes, number),
      c.root, c.all_roots, static_cast<int>(c.placement), c.check, c.warmup_iters, c.unalign, c.local_register,
      c.timeout_s, c.rel_ci, c.min_time_s, c.max_time_s, c.cell_time_s, c.epochs,
      // Results of before there was a choice go on being resumed.
      c.buffers == BufferUse::reuse ? " buffers reuse" : "",
      c.pattern == PingpongPattern::latency ? "" : fmt::format(" pattern {} {}", name(c.pattern), c.window));
}

std::vector<std::string> names(const std::vector<Stage>& stages) {
  return mapped(stages, [](Stage stage) { return std::string(name(stage)); });
}

std::string text_of(const PlanCell& cell) {
  return fmt::format("cell {} {} memory {} stages {} {} env {} {}", cell.name, cell.collective->name,
                     static_cast<int>(cell.memory), names(cell.stages), text_of(cell.config), cell.environment,
                     text_of(cell.criteria));
}

/// FNV-1a, as the plan digest of the benchmarks: the same on every machine.
std::uint64_t fnv1a(std::uint64_t hash, std::string_view text) {
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

}  // namespace

std::string why_not_here(const PlanCell& cell, const BackendTraits& backend) {
  const bool on_gpus = backend.memory == MemoryKind::gpu;
  if (cell.memory == CellMemory::gpu && !on_gpus) return "for GPUs (memory: gpu), and this is host memory";
  if (cell.memory == CellMemory::host && on_gpus) return "for host memory (memory: host), and these are GPUs";
  return {};
}

std::uint64_t digest_of(const AcceptPlan& plan) {
  std::uint64_t hash = 0xcbf29ce484222325;
  hash = fnv1a(
      hash, fmt::format("{} {} {} {} stages {} {} {} {}", plan.platform, plan.baseline, text_of(plan.baseline_margin),
                        plan.needs_gpus, names(plan.stages), plan.max_time_s, plan.repeat_for_s, plan.locate_on_fail));
  // Results of before there was a choice go on being resumed.
  if (plan.init) hash = fnv1a(hash, " init " + text_of(plan.init));
  if (plan.locate_looks_s != kLocateLooks) hash = fnv1a(hash, fmt::format(" looks {}", plan.locate_looks_s));
  for (const PlanCell& cell : plan.cells) hash = fnv1a(hash, text_of(cell));
  return hash;
}

void check_environment_needs(const AcceptPlan& plan, bool has_launch) {
  if (has_launch) return;
  for (const PlanCell& cell : plan.cells) {
    for (const auto& [name, value] : cell.environment) {
      if (rereads_per_communicator(name)) continue;
      const std::string_view other = setting_in_one_job(name);
      throw_bad_config(
          fmt::format("{}:{}: cell {}: env: {} is read once per process, so a job cannot set it for one cell: run with "
                      "--launch \"mpirun -n {{ranks}} {{cmd}}\"{}; one job can set: {}",
                      plan.file, cell.line, cell.name, name, other.empty() ? "" : fmt::format(", or set {}", other),
                      fmt::join(settings_of_communicators(), " ")));
    }
  }
}

}  // namespace busbar
