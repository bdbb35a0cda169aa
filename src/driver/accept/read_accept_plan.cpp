#include "driver/accept/read_accept_plan.h"

#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/measure/plan.h"
#include "driver/compare/launch_rounds.h"
#include "driver/compare/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

namespace busbar {
namespace {

/// The options of the benchmarks that say what a cell is and how long it may take. The others belong to the job as a
/// whole (--backend) or to a table that accept does not print.
constexpr std::array<std::string_view, 22> kCellOptions{
    "minbytes",  "maxbytes",  "stepbytes",    "stepfactor", "sizes",          "datatype", "op",     "root",
    "placement", "check",     "warmup-iters", "unalign",    "local-register", "timeout",  "rel-ci", "min-time",
    "max-time",  "cell-time", "epochs",       "buffers",    "pattern",        "window"};

constexpr std::array<std::string_view, 5> kSizeOptions{"minbytes", "maxbytes", "stepbytes", "stepfactor", "sizes"};

/// Names end up in JSON, file names of reports and --resume's list: words without spaces and slashes.
std::string read_name(const YamlValue& value) {
  const std::string name = value.text();
  const auto fits = [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
           c == '.' || c == '+';
  };
  if (name.empty() || name.size() > 60 || !std::ranges::all_of(name, fits)) {
    value.fail(fmt::format("name: {} is not a name of at most 60 letters, digits and - _ . +", in_quotes(name)));
  }
  return name;
}

void read_environment(const YamlValue& map, PlanCell& cell) {
  map.each([&](const YamlValue& value) {
    const std::string name(value.key);
    if (name.empty() || name.find_first_of(std::string("= \t\n")) != std::string::npos) {
      value.fail(fmt::format("env: {} is not the name of a setting", in_quotes(name)));
    }
    const std::string text = value.text();
    const auto known = std::ranges::find(cell.environment, name, [](const auto& setting) { return setting.first; });
    if (known == cell.environment.end()) {
      cell.environment.emplace_back(name, text);
    } else {
      known->second = text;
    }
  });
}

using ParseNumber = double (*)(const std::string&);

double share(const std::string& text) { return parse_fraction(text); }

double above_zero(double value) {
  if (value > 0) return value;
  throw_bad_config("must be above 0");
}

double duration_above_zero(const std::string& text) { return above_zero(parse_duration(text)); }

/// A number of a criterion; `name` is for error messages.
template <class Number>
YamlKey part_of(const YamlValue& criterion, std::string_view name, Number& into, ParseNumber parse) {
  return {name, [&criterion, name, &into, parse](const YamlValue& value) {
            into = value.as(fmt::format("{}: {}", criterion.key, name)).parsed(parse);
          }};
}

/// One number is the bound of a FAIL; a map may also have that of a WARN, and whatever else the criterion has.
Bound read_bound(const YamlValue& value, ParseNumber parse, bool larger_is_worse,
                 const std::vector<YamlKey>& more = {}) {
  if (!value.is(YamlTree::Kind::map)) return {std::nullopt, value.parsed(parse)};
  Bound bound;
  std::vector<YamlKey> keys{part_of(value, "warn", bound.warn, parse), part_of(value, "fail", bound.fail, parse)};
  keys.insert(keys.end(), more.begin(), more.end());
  value.read(keys);
  if (!bound.warn && !bound.fail) value.fail(fmt::format("{}: give warn, fail or both", value.key));
  if (!bound.warn || !bound.fail) return bound;
  if (larger_is_worse ? *bound.warn > *bound.fail : *bound.warn < *bound.fail) {
    value.fail(
        fmt::format("{0}: warn is beyond fail, so it could never warn: {0} fails {1} {2} and must warn before that",
                    value.key, larger_is_worse ? "above" : "below", *bound.fail));
  }
  return bound;
}

/// "5%", or {warn: 5%, fail: 10%}, as shares; larger is worse.
Bound read_share_bound(const YamlValue& value) { return read_bound(value, share, true); }

/// "20s", or {warn: 20s, fail: 1min}, in seconds; longer is worse.
Bound read_time_bound(const YamlValue& value) { return read_bound(value, duration_above_zero, true); }

void read_criteria(const YamlValue& map, Criteria& c) {
  static constexpr std::string_view kIgnore = "ignore";
  const auto shares = [](std::string_view key, std::optional<Bound>& bound) {
    return YamlKey{key, [key, &bound](const YamlValue& value) { bound = read_share_bound(value.as(key)); }};
  };
  const auto word = [](std::string_view key, std::string_view on, bool& is_on) {
    return YamlKey{key, [on, &is_on](const YamlValue& value) { is_on = value.word(std::array{on, kIgnore}) == 0; }};
  };
  const auto read_busbw = [&](const YamlValue& value) {
    c.busbw.reset();
    c.busbw_expected = value.is(YamlTree::Kind::scalar) && value.text() == "expected";
    if (!c.busbw_expected) c.busbw = read_bound(value, parse_gigabytes, false);
  };
  const auto read_ceiling = [&](const YamlValue& value) {
    c.ceiling_busbw = 0;
    c.of_ceiling = read_bound(value, share, false, {part_of(value, "of", c.ceiling_busbw, parse_gigabytes)});
  };
  map.read({{"busbw", read_busbw},
            {"ceiling", read_ceiling},
            {"latency", [&](const YamlValue& value) { c.latency = read_time_bound(value); }},
            word("wrong", "0", c.wrong),
            shares("time-spread", c.time_spread),
            shares("dips", c.dips),
            shares("drift", c.drift),
            shares("host-spread", c.host_spread),
            shares("rank-spread", c.rank_spread),
            word("counters", "unmoved", c.counters)},
           "criterion");
}

std::vector<Stage> read_stages(const YamlValue& value) {
  std::vector<Stage> stages;
  for (const std::string& word : value.texts()) {
    const auto stage = from_word<Stage>(canonical_key(word));
    constexpr auto kWords = words_of(Stage{});
    if (!stage) value.fail_unknown("stage", word, {kWords.begin(), kWords.end()});
    if (contains(stages, *stage)) value.fail(fmt::format("stages: {} is given twice", word));
    stages.push_back(*stage);
  }
  if (stages.empty()) value.fail("stages: the list is empty; choose from: doctor per-host pairs whole");
  return stages;
}

/// One entry of `cells:`, or `defaults:` (`is_default`), over what `defaults` holds. Checks nothing that needs the
/// whole plan.
PlanCell read_plan_cell(const YamlValue& map, const PlanCell& defaults, bool is_default) {
  constexpr std::array<std::string_view, 3> kMemoryWords{"any", "gpu", "host"};
  PlanCell cell = defaults;
  cell.line = map.line;
  if (!map.is(YamlTree::Kind::map)) map.fail("a cell is a map: write lines such as 'collective: all_reduce'");
  bool has_sizes = false;
  map.each([&](const YamlValue& value) { has_sizes = has_sizes || contains(kSizeOptions, value.key); });
  if (has_sizes) forget_sizes(cell.config);
  std::vector<Setting> settings;
  std::vector<YamlKey> keys{
      {"stages", [&](const YamlValue& v) { cell.stages = read_stages(v); }},
      {"memory", [&](const YamlValue& v) { cell.memory = static_cast<CellMemory>(v.word(kMemoryWords)); }},
      {"env", [&](const YamlValue& v) { read_environment(v, cell); }},
      {"criteria", [&](const YamlValue& v) { read_criteria(v, cell.criteria); }}};
  if (!is_default) {
    keys.push_back({"name", [&](const YamlValue& v) { cell.name = read_name(v); }});
    keys.push_back({"collective", [&](const YamlValue& v) { cell.collective = read_collective(v); }});
  }
  for (const std::string_view option : kCellOptions) {
    keys.push_back({option, [&](const YamlValue& v) { settings.push_back(apply_yaml_option(cell.config, v)); }});
  }
  map.read(keys);
  map.as("cell").checked([&] { check_size_conflict(settings); });
  if (!is_default && cell.collective == nullptr) map.fail("a cell without collective: name one");
  return cell;
}

/// More is a slip: every row is a criterion that somebody reads.
constexpr std::size_t kMaxCells = 500;
constexpr std::size_t kMaxPlanRows = 20'000;

std::string read_platform_name(const YamlValue& value) {
  std::vector<std::string_view> valid{"auto", "none"};
  for (const EmbeddedFile& file : embedded_platforms()) valid.push_back(file.name.substr(0, file.name.rfind('.')));
  const std::string_view platform = valid[value.word(valid)];
  return std::string(platform == "none" ? "" : platform);
}

void read_expect(const YamlValue& map, AcceptPlan& plan) {
  static constexpr std::array<std::string_view, 2> kGpus{"optional", "required"};
  map.read({{"platform", [&](const YamlValue& v) { plan.platform = read_platform_name(v); }},
            {"baseline",
             [&](const YamlValue& v) {
               plan.baseline = v.text();
               if (plan.baseline.empty()) v.fail("baseline: the file name is empty");
             }},
            {"baseline-margin", [&](const YamlValue& v) { plan.baseline_margin = read_share_bound(v); }},
            {"gpus", [&](const YamlValue& v) { plan.needs_gpus = v.word(kGpus) == 1; }}});
}

/// Checks what no single cell shows, and fills in what it leaves open.
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
  if (criteria.drift && plan.repeat_for_s <= 0)
    at.fail("drift is judged over repetitions: add repeat-for to the plan, or leave it out");
  cell.config.stat = true;
  cell.config.min_time_s = std::min(cell.config.min_time_s, cell.config.cell_time_s);
  cell.config.per_rank = criteria.rank_spread.has_value();
  cell.config.show_algo = criteria.busbw_expected || criteria.of_ceiling;
  at.checked([&] { validate(cell.config); });
}

void read_cells(const YamlValue& cells, const PlanCell& defaults, AcceptPlan& plan) {
  if (!cells.is(YamlTree::Kind::list))
    cells.fail("cells: write a list, each entry '- collective: NAME' and its options");
  if (cells.node.items.size() > kMaxCells) cells.fail(fmt::format("cells: more than {}", kMaxCells));
  std::set<std::string> taken;
  for (const YamlTree& entry : cells.node.items) {
    const YamlValue cell{cells.file, entry.line, entry, "cell"};
    plan.cells.push_back(read_plan_cell(cell, defaults, false));
    const std::string& name = plan.cells.back().name;
    if (!name.empty() && !taken.insert(name).second) {
      cell.fail(fmt::format("name: two cells are called {}", in_quotes(name)));
    }
  }
  std::size_t total = 0;
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    PlanCell& cell = plan.cells[i];
    if (cell.name.empty()) {  // "all_reduce", "all_reduce-2", ...
      cell.name = cell.collective->name;
      for (int n = 2; taken.contains(cell.name); ++n) cell.name = fmt::format("{}-{}", cell.collective->name, n);
      taken.insert(cell.name);
    }
    const YamlValue at{cells.file, cells.node.items[i].line, cells.node, "cell"};
    finish_cell(at, plan, cell);
    at.checked([&] { total += planned_cells(cell.config, *cell.collective) * cell.stages.size(); });
    if (total > kMaxPlanRows) {
      at.fail(
          fmt::format("more than {} rows to judge so far: a plan names the sizes that matter, with stepfactor or sizes",
                      kMaxPlanRows));
    }
  }
}

void read_root(const YamlValue& root, AcceptPlan& plan) {
  if (!root.is(YamlTree::Kind::map))
    root.fail("not a plan: write lines such as 'cells:' and below it '- collective: all_reduce'");
  PlanCell defaults;
  // Cells may come before what they refer to in the file.
  std::optional<YamlValue> cells;
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
             {"cells", [&](const YamlValue& v) { cells.emplace(v.as("cells")); }}});
  if (plan.stages.empty()) plan.stages = {Stage::doctor, Stage::per_host, Stage::pairs, Stage::whole};
  if (plan.repeat_for_s > 0 && plan.stages == std::vector{Stage::doctor})
    root.fail("repeat-for repeats what is measured: add per-host, pairs or whole to stages");
  if (cells) read_cells(*cells, defaults, plan);
  for (Stage stage : {Stage::per_host, Stage::whole}) {
    const auto measures = [&](const PlanCell& cell) { return contains(cell.stages, stage); };
    if (!contains(plan.stages, stage) || std::ranges::any_of(plan.cells, measures)) continue;
    root.fail(fmt::format("stages: no cell is measured in {}: add cells, or leave the stage out", name(stage)));
  }
  for (const PlanCell& cell : plan.cells) {
    if (!cell.criteria.busbw_expected || !plan.platform.empty()) continue;
    root.fail(
        fmt::format("cell {}: busbw: expected, but the plan expects no platform: set expect: platform to auto or a "
                    "name, or give busbw a number",
                    cell.name));
  }
}

/// Keys and values, whatever the order of the keys, the layout and the comments.
std::string words_of(const YamlTree& tree) {
  const bool is_map = tree.kind == YamlTree::Kind::map;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < tree.items.size(); i += is_map ? 2 : 1)
    parts.push_back(words_of(tree.items[i]) + (is_map ? words_of(tree.items[i + 1]) : ""));
  if (is_map) std::ranges::sort(parts);
  return fmt::format("{} {} {} {}", parts.size(), tree.scalar.size(), tree.scalar, fmt::join(parts, ""));
}

}  // namespace

double parse_gigabytes(const std::string& text) { return above_zero(parse_double(text, 0)); }

const Collective* read_collective(const YamlValue& value) {
  const std::string name = value.text();
  if (const Collective* found = find_collective(name)) return found;
  value.fail_unknown("collective", name, collective_names());
}

AcceptPlan read_accept_plan(std::string_view text, const std::string& file_name) {
  AcceptPlan plan;
  plan.file = file_name;
  plan.text = text;
  plan.platform = "auto";
  with_yaml(file_name, text, [&](const YamlValue& root) {
    read_root(root, plan);
    plan.digest = hash(words_of(root.node));
  });
  return plan;
}

std::string why_not_here(const PlanCell& cell, const BackendTraits& backend) {
  const bool on_gpus = backend.memory == MemoryKind::gpu;
  if (cell.memory == CellMemory::gpu && !on_gpus) return "for GPUs (memory: gpu), and this is host memory";
  if (cell.memory == CellMemory::host && on_gpus) return "for host memory (memory: host), and these are GPUs";
  return {};
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
