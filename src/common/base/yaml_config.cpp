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

void apply_own(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, const FileKey& key) {
  const auto set = [&](const YAML::Mark& where, const std::string& item, const std::vector<std::string>& values) {
    yaml_set(place, where, key.name, [&] { key.set(item, values); });
  };
  switch (key.form) {
    case FileKey::Form::value:
      return set(mark, "", {yaml_scalar(place, mark, node, key.name)});
    case FileKey::Form::list:
      return set(mark, "", yaml_scalars(place, mark, node, key.name));
    case FileKey::Form::map_of_lists:
      break;
  }
  if (!node.IsMap()) place.fail(mark, fmt::format("{}: the value is not a map of names and their values", key.name));
  for (const auto& entry : node) {
    const YAML::Mark here = entry.first.Mark();
    const std::string item = yaml_scalar(place, here, entry.first, key.name);
    set(here, item, yaml_scalars(place, here, entry.second, item));
  }
}

std::vector<std::string> apply_map(const YamlPlace& place, Config& config, const YAML::Node& root,
                                   std::span<const FileKey> own) {
  std::vector<std::string> names;
  for_each_key(place, root.Mark(), root, "the file",
               [&](const std::string& key, const YAML::Mark& mark, const YAML::Node& value) {
                 if (key == "schema") return check_yaml_schema(place, mark, value);
                 if (const FileKey* own_key = find_own(key, own)) return apply_own(place, mark, value, *own_key);
                 const std::string_view name = apply_yaml_option(place, config, key, mark, value);
                 if (name.empty()) place.fail_unknown(mark, "key", key, valid_keys(own));
                 names.emplace_back(name);
               });
  return names;
}

}  // namespace

std::vector<std::string> apply_yaml(Config& config, std::string_view text, const std::string& file_name,
                                    std::span<const FileKey> own) {
  const YamlPlace place(file_name);
  std::vector<std::string> names;
  with_yaml(place, text, [&](const YAML::Node& root) {
    if (root.IsNull()) return;
    if (!root.IsMap()) place.fail(root.Mark(), "not a map of options: write lines such as 'minbytes: 8'");
    names = apply_map(place, config, root, own);
    try {
      check_size_conflict(names);
    } catch (const Error& error) {
      place.fail(root.Mark(), error.what());
    }
  });
  return names;
}

}  // namespace busbar
