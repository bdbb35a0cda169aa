#include "driver/accept/plan_cell.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/suggest.h"
#include "common/base/text.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <functional>

namespace busbar {
namespace {

/// The options of the benchmarks that say what a cell is and how long it may take. The others belong to the job as a
/// whole (--backend) or to a table that accept does not print.
constexpr std::array<std::string_view, 22> kCellOptions{
    "minbytes",  "maxbytes",  "stepbytes",    "stepfactor", "sizes",          "datatype", "op",     "root",
    "placement", "check",     "warmup_iters", "unalign",    "local_register", "timeout",  "rel-ci", "min-time",
    "max-time",  "cell-time", "epochs",       "buffers",    "pattern",        "window"};

constexpr std::array<std::string_view, 5> kSizeOptions{"minbytes", "maxbytes", "stepbytes", "stepfactor", "sizes"};

template <class List>
bool names_key(const List& list, std::string_view name) {
  return std::ranges::any_of(list, [&](std::string_view item) { return canonical_key(item) == canonical_key(name); });
}

std::vector<std::string> valid_keys(bool is_default) {
  std::vector<std::string> keys{"stages", "memory", "env", "criteria"};
  if (!is_default) keys.insert(keys.begin(), {"name", "collective"});
  for (std::string_view name : kCellOptions) keys.emplace_back(name);
  return keys;
}

/// Names end up in JSON, file names of reports and --resume's list: words without blanks and slashes.
std::string read_name(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node) {
  const std::string name = yaml_scalar(place, mark, node, "name");
  const auto fits = [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
           c == '.' || c == '+';
  };
  if (name.empty() || name.size() > 60 || !std::ranges::all_of(name, fits)) {
    place.fail(mark, fmt::format("name: {} is not a name of at most 60 letters, digits and - _ . +", in_quotes(name)));
  }
  return name;
}

CellMemory read_memory(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node) {
  constexpr std::array kMemories{CellMemory::any, CellMemory::gpu, CellMemory::host};
  return kMemories[yaml_word(place, mark, node, "memory", {"any", "gpu", "host"})];
}

void read_environment(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, PlanCell& cell) {
  for_each_key(place, mark, node, "env",
               [&](const std::string& name, const YAML::Mark& where, const YAML::Node& value) {
                 if (name.empty() || name.find_first_of(std::string("= \t\n")) != std::string::npos) {
                   place.fail(where, fmt::format("env: {} is not the name of a setting", in_quotes(name)));
                 }
                 const std::string text = yaml_scalar(place, where, value, name);
                 const auto known =
                     std::ranges::find_if(cell.environment, [&](const auto& setting) { return setting.first == name; });
                 if (known == cell.environment.end()) {
                   cell.environment.emplace_back(name, text);
                 } else {
                   known->second = text;
                 }
               });
}

/// A cell's own sizes replace those of the defaults, not only their numbers.
void forget_sizes(Config& config) {
  const Config untouched;
  config.sizes.clear();
  config.minbytes = untouched.minbytes;
  config.maxbytes = untouched.maxbytes;
  config.stepbytes = untouched.stepbytes;
  config.stepfactor = untouched.stepfactor;
}

bool has_sizes(const YAML::Node& node) {
  return std::ranges::any_of(
      node, [](const auto& entry) { return entry.first.IsScalar() && names_key(kSizeOptions, entry.first.Scalar()); });
}

void read_option(const YamlPlace& place, const YAML::Mark& mark, const std::string& key, const YAML::Node& value,
                 bool is_default, PlanCell& cell, std::vector<std::string>& names) {
  if (names_key(kCellOptions, key)) {
    names.emplace_back(apply_yaml_option(place, cell.config, key, mark, value));
    return;
  }
  for (const Option& option : all_options()) {
    if (canonical_key(option.long_name) != canonical_key(key)) continue;
    place.fail(mark, fmt::format("{} has no meaning in a cell of a plan; valid keys: {}", option.long_name,
                                 fmt::join(valid_keys(is_default), " ")));
  }
  place.fail_unknown(mark, "key", key, valid_keys(is_default));
}

}  // namespace

const Collective* read_collective(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node) {
  const std::string name = yaml_scalar(place, mark, node, "collective");
  if (const Collective* found = find_collective(name)) return found;
  place.fail_unknown(mark, "collective", name, collective_names());
}

std::vector<Stage> read_stages(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node) {
  constexpr std::array kAll{Stage::doctor, Stage::per_host, Stage::pairs, Stage::whole};
  std::vector<Stage> stages;
  for (const std::string& word : yaml_scalars(place, mark, node, "stages")) {
    const auto found = std::ranges::find_if(kAll, [&](Stage s) { return canonical_key(word) == name(s); });
    if (found == kAll.end()) place.fail_unknown(mark, "stage", word, {"doctor", "per-host", "pairs", "whole"});
    if (contains(stages, *found)) {
      place.fail(mark, fmt::format("stages: {} is given twice", word));
    }
    stages.push_back(*found);
  }
  if (stages.empty()) place.fail(mark, "stages: the list is empty; choose from: doctor per-host pairs whole");
  return stages;
}

PlanCell read_plan_cell(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node,
                        const PlanCell& defaults, bool is_default) {
  PlanCell cell = defaults;
  cell.line = YamlPlace::line(mark);
  if (!node.IsMap()) place.fail(mark, "a cell is a map: write lines such as 'collective: all_reduce'");
  if (has_sizes(node)) forget_sizes(cell.config);
  std::vector<std::string> names;
  for_each_key(place, mark, node, "cell",
               [&](const std::string& key, const YAML::Mark& where, const YAML::Node& value) {
                 if (!is_default && key == "name") {
                   cell.name = read_name(place, where, value);
                 } else if (!is_default && key == "collective") {
                   cell.collective = read_collective(place, where, value);
                 } else if (key == "stages") {
                   cell.stages = read_stages(place, where, value);
                 } else if (key == "memory") {
                   cell.memory = read_memory(place, where, value);
                 } else if (key == "env") {
                   read_environment(place, where, value, cell);
                 } else if (key == "criteria") {
                   read_criteria(place, where, value, cell.criteria);
                 } else {
                   read_option(place, where, key, value, is_default, cell, names);
                 }
               });
  yaml_set(place, mark, "cell", [&] { check_size_conflict(names); });
  if (!is_default && cell.collective == nullptr) place.fail(mark, "a cell without collective: name one");
  return cell;
}

namespace {

using ParseNumber = std::function<double(const std::string&)>;

struct Field {
  std::string name;
  ParseNumber parse;
  std::function<void(double)> set;
};

double share(const std::string& text) { return parse_fraction(text); }

double positive(double value) {
  if (value > 0) return value;
  throw Error(ExitCode::bad_config, "must be above 0");
}

double gigabytes(const std::string& text) { return positive(parse_double(text, 0)); }

double positive_duration(const std::string& text) { return positive(parse_duration(text)); }

/// One number is what FAILs; a map may say what WARNs too, and whatever else the criterion has.
void read_bound(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key,
                const ParseNumber& parse, bool larger_is_worse, Bound& bound, const std::vector<Field>& more = {}) {
  bound = {};
  const auto number = [&](const YAML::Mark& where, const YAML::Node& value, std::string_view name,
                          const ParseNumber& how) {
    const std::string text = yaml_scalar(place, where, value, name);
    double result = 0;
    yaml_set(place, where, name, [&] { result = how(text); });
    return result;
  };
  if (!node.IsMap()) {
    bound.fail = number(mark, node, key, parse);
    return;
  }
  std::vector<std::string> valid{"warn", "fail"};
  for (const Field& field : more) valid.push_back(field.name);
  for_each_key(place, mark, node, key, [&](const std::string& name, const YAML::Mark& where, const YAML::Node& value) {
    const std::string label = fmt::format("{}: {}", key, name);
    if (name == "warn") {
      bound.warn = number(where, value, label, parse);
    } else if (name == "fail") {
      bound.fail = number(where, value, label, parse);
    } else {
      for (const Field& field : more) {
        if (field.name == name) return field.set(number(where, value, label, field.parse));
      }
      place.fail_unknown(where, "key", name, valid);
    }
  });
  if (!bound.warn && !bound.fail) place.fail(mark, fmt::format("{}: give warn, fail or both", key));
  if (!bound.warn || !bound.fail) return;
  if (larger_is_worse ? *bound.warn > *bound.fail : *bound.warn < *bound.fail) {
    place.fail(mark, fmt::format("{0}: warn is beyond fail, so it could never warn: {0} fails {1} {2} and must warn "
                                 "before that",
                                 key, larger_is_worse ? "above" : "below", *bound.fail));
  }
}

/// A criterion that is on or off.
bool read_word(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key,
               std::string_view on) {
  const std::string text = yaml_scalar(place, mark, node, key);
  if (text != on && text != "ignore") {
    place.fail(mark, fmt::format("{}: {} is not a criterion; choose from: {} ignore", key, in_quotes(text), on));
  }
  return text == on;
}

void read_busbw(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, Criteria& c) {
  c.busbw.reset();
  c.busbw_expected = node.IsScalar() && node.Scalar() == "expected";
  if (!c.busbw_expected) read_bound(place, mark, node, "busbw", gigabytes, false, c.busbw.emplace());
}

void read_ceiling_bound(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, Criteria& c) {
  c.ceiling_busbw = 0;
  Bound& bound = c.of_ceiling.emplace();
  read_bound(place, mark, node, "ceiling", share, false, bound,
             {{"of", gigabytes, [&](double value) { c.ceiling_busbw = value; }}});
  if (!bound.warn && !bound.fail) place.fail(mark, "ceiling: give warn or fail, as a share of the ceiling");
}

}  // namespace

Bound read_share_bound(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key) {
  Bound bound;
  read_bound(place, mark, node, key, share, true, bound);
  return bound;
}

Bound read_time_bound(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key) {
  Bound bound;
  read_bound(place, mark, node, key, positive_duration, true, bound);
  return bound;
}

void read_criteria(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, Criteria& c) {
  using Mark = YAML::Mark;
  using Node = YAML::Node;
  const auto shares = [&](std::string_view key, std::optional<Bound>& bound) {
    return YamlKey{key, [&place, key, &bound](const std::string&, const Mark& at, const Node& value) {
                     bound = read_share_bound(place, at, value, key);
                   }};
  };
  const auto word = [&](std::string_view key, std::string_view on, bool& is_on) {
    return YamlKey{key, [&place, key, on, &is_on](const std::string&, const Mark& at, const Node& value) {
                     is_on = read_word(place, at, value, key, on);
                   }};
  };
  read_keys(
      place, mark, node, "criteria",
      {{"busbw", [&](const auto&, const Mark& at, const Node& value) { read_busbw(place, at, value, c); }},
       {"ceiling", [&](const auto&, const Mark& at, const Node& value) { read_ceiling_bound(place, at, value, c); }},
       {"latency", [&](const auto&, const Mark& at,
                       const Node& value) { c.latency = read_time_bound(place, at, value, "latency"); }},
       word("wrong", "0", c.wrong),
       shares("time-spread", c.time_spread),
       shares("dips", c.dips),
       shares("drift", c.drift),
       shares("host-spread", c.host_spread),
       shares("rank-spread", c.rank_spread),
       word("counters", "unmoved", c.counters)},
      "criterion");
}

}  // namespace busbar
