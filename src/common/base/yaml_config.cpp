#include "common/base/yaml_config.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/suggest.h"
#include "common/base/units.h"

namespace busbar {
namespace {

/// yaml-cpp recurses over nesting and its time is not linear in it: a configuration is small and flat.
constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr int kMaxNesting = 32;

/// Where errors are, in messages.
class Place {
 public:
  explicit Place(const std::string& file) : file_(file) {}

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    // Marks count from 0; the parser has none for an empty document.
    const int line = mark.line < 0 ? 1 : mark.line + 1;
    throw Error(ExitCode::bad_config, fmt::format("{}:{}: {}", file_, line, what));
  }

 private:
  const std::string& file_;
};

std::string canonical(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Options that a file may set.
const Option* find_key(std::string_view key) {
  for (const Option& option : all_options()) {
    if (option.set != nullptr && canonical(option.long_name) == canonical(key)) return &option;
  }
  return nullptr;
}

std::vector<std::string> valid_keys() {
  std::vector<std::string> keys{"schema"};
  for (const Option& option : all_options()) {
    if (option.set != nullptr) keys.emplace_back(option.long_name);
  }
  return keys;
}

[[noreturn]] void fail_unknown_key(const Place& place, const YAML::Mark& mark, const std::string& key) {
  const std::vector<std::string> keys = valid_keys();
  const std::string nearest = nearest_choice(key, keys);
  place.fail(mark, fmt::format("unknown key {}{}; valid keys: {}", quoted(key),
                               nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest),
                               fmt::join(keys, " ")));
}

std::string scalar(const Place& place, const YAML::Node& node, const std::string& key) {
  if (node.IsScalar()) return node.Scalar();
  const char* kind = node.IsMap() ? "a map" : node.IsSequence() ? "a list" : "empty";
  place.fail(node.Mark(), fmt::format("{}: the value is {}, not a single value", key, kind));
}

/// A value as the command line would write it; list items are joined with commas.
std::string value_text(const Place& place, const YAML::Node& node, const Option& option) {
  const std::string key(option.long_name);
  if (!node.IsSequence() || !option.takes_list) return scalar(place, node, key);
  std::vector<std::string> items;
  for (const YAML::Node& item : node) items.push_back(scalar(place, item, key));
  return fmt::format("{}", fmt::join(items, ","));
}

void check_schema(const Place& place, const YAML::Node& value) {
  const std::string schema = scalar(place, value, "schema");
  if (schema != "1") place.fail(value.Mark(), fmt::format("schema {} is not known: this version reads schema 1", quoted(schema)));
}

/// Flow nesting that the parser would recurse into; block nesting needs indentation and is as deep as a line is wide.
void check_nesting(const Place& place, std::string_view text) {
  int depth = 0;
  YAML::Mark mark;
  for (char c : text) {
    if (c == '\n') ++mark.line;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') depth = std::max(0, depth - 1);
    if (depth > kMaxNesting) place.fail(mark, "too deeply nested for a configuration");
  }
}

/// The first document, or a null node when there is none. Throws YAML::Exception.
YAML::Node load(const Place& place, std::string_view text) {
  const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
  if (documents.size() > 1) place.fail(documents[1].Mark(), "a second document begins here: one file holds one configuration");
  return documents.empty() ? YAML::Node() : documents[0];
}

std::vector<std::string> apply_map(const Place& place, Config& config, const YAML::Node& root) {
  std::vector<std::string> names;
  std::vector<std::string> seen;
  for (const auto& entry : root) {
    const YAML::Mark mark = entry.first.Mark();
    if (!entry.first.IsScalar()) place.fail(mark, "a key is not a plain word");
    const std::string key = entry.first.Scalar();
    if (std::find(seen.begin(), seen.end(), canonical(key)) != seen.end()) {
      place.fail(mark, fmt::format("key {} is given twice", quoted(key)));
    }
    seen.push_back(canonical(key));
    if (key == "schema") {
      check_schema(place, entry.second);
      continue;
    }
    const Option* option = find_key(key);
    if (option == nullptr) fail_unknown_key(place, mark, key);
    const std::string text = value_text(place, entry.second, *option);
    try {
      option->set(config, text);
    } catch (const Error& error) {
      place.fail(entry.second.Mark(), fmt::format("{}: {}", option->long_name, error.what()));
    }
    names.emplace_back(option->long_name);
  }
  return names;
}

}  // namespace

std::vector<std::string> apply_yaml(Config& config, std::string_view text, const std::string& file_name) {
  const Place place(file_name);
  if (text.size() > kMaxFileBytes) place.fail({}, "larger than 1 MiB: this is not a configuration");
  check_nesting(place, text);
  try {
    const YAML::Node root = load(place, text);
    if (root.IsNull()) return {};
    if (!root.IsMap()) place.fail(root.Mark(), "not a map of options: write lines such as 'minbytes: 8'");
    const std::vector<std::string> names = apply_map(place, config, root);
    try {
      check_size_conflict(names);
    } catch (const Error& error) {
      place.fail(root.Mark(), error.what());
    }
    return names;
  } catch (const YAML::Exception& error) {
    place.fail(error.mark, fmt::format("not valid YAML: {}", error.msg));
  }
}

}  // namespace busbar
