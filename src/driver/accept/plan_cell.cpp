#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/suggest.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "driver/accept/read_accept_plan.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>

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

double positive(double value) {
  if (value > 0) return value;
  throw_bad_config("must be above 0");
}

double positive_duration(const std::string& text) { return positive(parse_duration(text)); }

/// A number of a criterion's, whom complaints name too.
template <class Number>
YamlKey part_of(const YamlValue& criterion, std::string_view name, Number& into, ParseNumber parse) {
  return {name, [&criterion, name, &into, parse](const YamlValue& value) {
            into = value.as(fmt::format("{}: {}", criterion.key, name)).parsed(parse);
          }};
}

/// One number is what FAILs; a map may say what WARNs too, and whatever else the criterion has.
Bound read_bound(const YamlValue& value, ParseNumber parse, bool larger_is_worse,
                 const std::vector<YamlKey>& more = {}) {
  if (!value.node.IsMap()) return {std::nullopt, value.parsed(parse)};
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

/// A criterion that is on or off.
bool read_word(const YamlValue& value, std::string_view on) {
  const std::string text = value.text();
  if (text != on && text != "ignore") {
    value.fail(fmt::format("{}: {} is not a criterion; choose from: {} ignore", value.key, in_quotes(text), on));
  }
  return text == on;
}

void read_busbw(const YamlValue& value, Criteria& c) {
  c.busbw.reset();
  c.busbw_expected = value.node.IsScalar() && value.node.Scalar() == "expected";
  if (!c.busbw_expected) c.busbw = read_bound(value, parse_gigabytes, false);
}

void read_ceiling_bound(const YamlValue& value, Criteria& c) {
  c.ceiling_busbw = 0;
  c.of_ceiling = read_bound(value, share, false, {part_of(value, "of", c.ceiling_busbw, parse_gigabytes)});
}

void read_criteria(const YamlValue& map, Criteria& c) {
  const auto shares = [](std::string_view key, std::optional<Bound>& bound) {
    return YamlKey{key, [key, &bound](const YamlValue& value) { bound = read_share_bound(value.as(key)); }};
  };
  const auto word = [](std::string_view key, std::string_view on, bool& is_on) {
    return YamlKey{key, [on, &is_on](const YamlValue& value) { is_on = read_word(value, on); }};
  };
  map.read({{"busbw", [&](const YamlValue& value) { read_busbw(value, c); }},
            {"ceiling", [&](const YamlValue& value) { read_ceiling_bound(value, c); }},
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

bool has_sizes(const YAML::Node& node) {
  return std::ranges::any_of(
      node, [](const auto& entry) { return entry.first.IsScalar() && names_key(kSizeOptions, entry.first.Scalar()); });
}

void read_option(const YamlValue& value, bool is_default, PlanCell& cell, std::vector<std::string>& names) {
  if (names_key(kCellOptions, value.key)) {
    names.emplace_back(apply_yaml_option(cell.config, value));
    return;
  }
  for (const Option& option : all_options()) {
    if (canonical_key(option.long_name) != canonical_key(value.key)) continue;
    value.fail(fmt::format("{} has no meaning in a cell of a plan; valid keys: {}", option.long_name,
                           fmt::join(valid_keys(is_default), " ")));
  }
  value.fail_unknown("key", value.key, valid_keys(is_default));
}

}  // namespace

double parse_gigabytes(const std::string& text) { return positive(parse_double(text, 0)); }

Bound read_share_bound(const YamlValue& value) { return read_bound(value, share, true); }

Bound read_time_bound(const YamlValue& value) { return read_bound(value, positive_duration, true); }

const Collective* read_collective(const YamlValue& value) {
  const std::string name = value.text();
  if (const Collective* found = find_collective(name)) return found;
  value.fail_unknown("collective", name, collective_names());
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

PlanCell read_plan_cell(const YamlValue& map, const PlanCell& defaults, bool is_default) {
  constexpr std::array<std::string_view, 3> kMemoryWords{"any", "gpu", "host"};
  PlanCell cell = defaults;
  cell.line = map.line();
  if (!map.node.IsMap()) map.fail("a cell is a map: write lines such as 'collective: all_reduce'");
  if (has_sizes(map.node)) forget_sizes(cell.config);
  std::vector<std::string> names;
  map.each([&](const YamlValue& value) {
    const std::string_view key = value.key;
    if (!is_default && key == "name") {
      cell.name = read_name(value);
    } else if (!is_default && key == "collective") {
      cell.collective = read_collective(value);
    } else if (key == "stages") {
      cell.stages = read_stages(value);
    } else if (key == "memory") {
      cell.memory = static_cast<CellMemory>(value.word(kMemoryWords));
    } else if (key == "env") {
      read_environment(value, cell);
    } else if (key == "criteria") {
      read_criteria(value, cell.criteria);
    } else {
      read_option(value, is_default, cell, names);
    }
  });
  map.as("cell").checked([&] { check_size_conflict(names); });
  if (!is_default && cell.collective == nullptr) map.fail("a cell without collective: name one");
  return cell;
}

}  // namespace busbar
