#include "common/base/yaml_config.h"

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/yaml_node.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

namespace busbar {
namespace {

const FileKey* find_own(std::string_view key, std::span<const FileKey> own) {
  const auto found = std::find_if(own.begin(), own.end(),
                                  [&](const FileKey& o) { return canonical_key(o.name) == canonical_key(key); });
  return found == own.end() ? nullptr : &*found;
}

std::vector<std::string> valid_keys(std::span<const FileKey> own) {
  std::vector<std::string> keys{"schema"};
  for (const FileKey& key : own) keys.emplace_back(key.name);
  for (const Option& option : all_options()) {
    if (option.set != nullptr) keys.emplace_back(option.long_name);
  }
  return keys;
}

void apply_own(const YamlValue& value, const FileKey& key) {
  const auto set = [&](const YamlValue& at, const std::string& item, const std::vector<std::string>& values) {
    at.as(key.name).checked([&] { key.set(item, values); });
  };
  switch (key.form) {
    case FileKey::Form::value:
      return set(value, "", {value.as(key.name).text()});
    case FileKey::Form::list:
      return set(value, "", value.as(key.name).texts());
    case FileKey::Form::map_of_lists:
      break;
  }
  if (!value.node.IsMap()) value.fail(fmt::format("{}: the value is not a map of names and their values", key.name));
  for (const auto& entry : value.node) {
    const YAML::Mark here = entry.first.Mark();
    const std::string item = YamlValue{value.file, here, entry.first, key.name}.text();
    const YamlValue values{value.file, here, entry.second, item};
    set(values, item, values.texts());
  }
}

std::vector<std::string> apply_map(Config& config, const YamlValue& root, std::span<const FileKey> own) {
  std::vector<std::string> names;
  root.each([&](const YamlValue& value) {
    if (value.key == "schema") return check_yaml_schema(value);
    if (const FileKey* own_key = find_own(value.key, own)) return apply_own(value, *own_key);
    const std::string_view name = apply_yaml_option(config, value);
    if (name.empty()) value.fail_unknown("key", value.key, valid_keys(own));
    names.emplace_back(name);
  });
  return names;
}

}  // namespace

std::vector<std::string> apply_yaml(Config& config, std::string_view text, const std::string& file_name,
                                    std::span<const FileKey> own) {
  std::vector<std::string> names;
  with_yaml(file_name, text, [&](const YamlValue& root) {
    if (root.node.IsNull()) return;
    if (!root.node.IsMap()) root.fail("not a map of options: write lines such as 'minbytes: 8'");
    names = apply_map(config, root, own);
    try {
      check_size_conflict(names);
    } catch (const Error& error) {
      root.fail(error.what());
    }
  });
  return names;
}

}  // namespace busbar
