#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/base/yaml_node.h"
#include "common/output/format.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"
#include "driver/workload/workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <functional>
#include <list>
#include <set>
#include <type_traits>

namespace busbar {
namespace {

/// In single quotes unless it is a plain word.
std::string yaml_text(std::string_view text) {
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '/' || c == '.'; };
  const bool word =
      !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0 && std::ranges::all_of(text, is_plain);
  // Which other readers of YAML take for values.
  constexpr std::array<std::string_view, 7> kValues{"true", "false", "null", "yes", "no", "on", "off"};
  if (word && !contains(kValues, lower_case(text))) return std::string(text);
  return "'" + with_escapes(without_controls(text), {{'\'', "''"}}) + "'";
}

/// A value as YAML on one line, without members that say nothing.
std::string yaml_value(const Json& value) {
  if (value.is_string()) return yaml_text(value.get_ref<const std::string&>());
  if (value.is_number_float()) return fmt::format("{:.9g}", value.get<double>());
  if (value.is_array()) return fmt::format("[{}]", fmt::join(mapped(value, yaml_value), ", "));
  if (!value.is_object()) return value.dump();
  std::vector<std::string> members;
  for (const auto& [key, member] : value.items()) {
    if (member != nullptr && member != "" && member != false)
      members.push_back(fmt::format("{}: {}", key, yaml_value(member)));
  }
  return fmt::format("{{{}}}", fmt::join(members, ", "));
}

template <class T>
void read_yaml(const YamlValue& value, T& into);

template <class T>
void read_record(const YamlValue& value, T& into) {
  std::list<std::string> names;
  std::vector<YamlKey> keys;
  std::set<std::string> missing;
  const auto add = [&](const char* key, bool may_be_absent, const std::function<void(const YamlValue&)>& read) {
    if (!may_be_absent) missing.insert(key);
    keys.push_back({names.emplace_back(canonical_key(key)), [&missing, key, read](const YamlValue& own) {
                      missing.erase(key);
                      read(own);
                    }});
  };
  const auto add_field = [&]<class Field>(const char* key, Field& field) {
    constexpr bool kHasDefault = std::is_same_v<Field, bool> || std::is_same_v<Field, std::string> || MaybeHeld<Field>;
    add(key, kHasDefault, [&field](const YamlValue& own) { read_yaml(own, field); });
  };
  visit_fields(add_field, into);
  if constexpr (std::is_same_v<T, Workload>) add("schema", false, check_yaml_schema);
  for (const char* reserved : {"routing", "layout", "replay"}) {
    add(reserved, true,
        [](const YamlValue& own) { own.fail(fmt::format("{} belongs to a later version of this file", own.key)); });
  }
  value.read(keys);
  if (!missing.empty()) value.fail(fmt::format("{}: '{}' is missing", value.key, *missing.begin()));
}

template <class T>
void read_yaml(const YamlValue& value, T& into) {
  if constexpr (std::is_same_v<T, bool>) {
    into = value.parsed([](const std::string& text) { return parse_switch(text); });
  } else if constexpr (std::is_same_v<T, double>) {
    into = value.parsed([](const std::string& text) { return parse_double(text, 0, 1e15); });
  } else if constexpr (std::is_integral_v<T>) {
    into = value.parsed([](const std::string& text) {
      const auto number = number_of<T>(text);
      if (!number || *number < T{0}) reject_text(text, "a whole number from 0 on that fits");
      return *number;
    });
  } else if constexpr (std::is_enum_v<T>) {
    into = static_cast<T>(value.word(words_of(T{})));
  } else if constexpr (std::is_same_v<T, std::string>) {
    into = value.text();
  } else if constexpr (MaybeHeld<T>) {
    into.reset();
    if (!value.is(YamlTree::Kind::null) && !(value.is(YamlTree::Kind::scalar) && value.node.scalar == "null"))
      read_yaml(value, into.emplace());
  } else if constexpr (ManyItems<T>) {
    value.each_item([&](const YamlValue& item) { read_yaml(item, into.emplace_back()); });
  } else {
    read_record(value, into);
  }
}

void check_references(const YamlValue& root, const Workload& job) {
  std::set<std::string> names{""};
  for (const WorkloadGroup& group : job.groups) {
    if (!names.insert(group.name).second) root.fail(fmt::format("group {} is there twice", in_quotes(group.name)));
  }
  std::set<std::uint64_t> ids;
  for (const WorkloadOperation& operation : job.operations) {
    if (!ids.insert(operation.id).second) root.fail(fmt::format("operation {} is there twice", operation.id));
    if (!names.contains(operation.group)) {
      root.fail(fmt::format("operation {}: there is no group {}", operation.id, in_quotes(operation.group)));
    }
  }
}

std::string whole_yaml(const Workload& job) {
  std::string text = fmt::format(
      "# What a job communicates, by `busbar workload import` {}, {}. Times are seconds, bytes those of one\n"
      "# rank and call; docs/workload.md describes the fields.\n"
      "schema: 1\n",
      BUSBAR_VERSION, local_timestamp());
  const Json document = fields_json(job);
  for (const auto& [key, value] : document.items()) {
    const bool is_list = value.is_array() && !value.empty();
    text += fmt::format("{}:{}\n", key, is_list || value.is_object() ? "" : " " + yaml_value(value));
    for (const Json& item : is_list ? value : Json::array()) text += fmt::format("- {}\n", yaml_value(item));
    if (!value.is_object()) continue;
    for (const auto& [part, own] : value.items()) text += fmt::format("  {}: {}\n", part, yaml_value(own));
  }
  return text;
}

}  // namespace

std::string workload_yaml(const Workload& job) {
  std::string text = whole_yaml(job);
  Workload less = job;
  while (text.size() > kMostYamlBytes) {
    const auto halve = [](auto& list) { return list.size() > 1 ? list.resize(list.size() / 2), true : false; };
    if (!halve(less.steps) && !halve(less.operations) && !halve(less.sources)) break;
    less.remarks = job.remarks;
    less.remarks.push_back(fmt::format(
        "the file would be larger than 1 MiB: it has {} of {} steps, {} of {} operations and {} of {} sources",
        less.steps.size(), job.steps.size(), less.operations.size(), job.operations.size(), less.sources.size(),
        job.sources.size()));
    text = whole_yaml(less);
  }
  return text;
}

Workload read_workload(std::string_view text, const std::string& file) {
  Workload job;
  with_yaml(file, text, [&](const YamlValue& root) {
    read_record(root, job);
    check_references(root, job);
  });
  return job;
}

std::string workload_json(const Workload& job) {
  Json document = envelope_json({"workload", local_timestamp(), {}, own_command()});
  document.update(fields_json(job));
  return dump_document(document);
}

}  // namespace busbar
