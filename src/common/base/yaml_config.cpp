#include "common/base/yaml_config.h"

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/suggest.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>

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

const FileKey* find_own(std::string_view key, std::span<const FileKey> own) {
  const auto found =
      std::find_if(own.begin(), own.end(), [&](const FileKey& o) { return canonical(o.name) == canonical(key); });
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

[[noreturn]] void fail_unknown_key(const Place& place, const YAML::Mark& mark, const std::string& key,
                                   std::span<const FileKey> own) {
  const std::vector<std::string> keys = valid_keys(own);
  const std::string nearest = nearest_choice(key, keys);
  place.fail(mark,
             fmt::format("unknown key {}{}; valid keys: {}", quoted(key),
                         nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), fmt::join(keys, " ")));
}

/// The text of a single value; errors point at the line of its key, which an empty value does not have.
std::string scalar(const Place& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key) {
  if (node.IsScalar()) return node.Scalar();
  const char* kind = node.IsMap() ? "a map" : node.IsSequence() ? "a list" : "empty";
  place.fail(mark, fmt::format("{}: the value is {}, not a single value", key, kind));
}

std::vector<std::string> scalars(const Place& place, const YAML::Mark& mark, const YAML::Node& node,
                                 std::string_view key) {
  if (!node.IsSequence()) return {scalar(place, mark, node, key)};
  std::vector<std::string> items;
  for (const YAML::Node& item : node) items.push_back(scalar(place, mark, item, key));
  return items;
}

/// A value as the command line would write it; list items are joined with commas.
std::string value_text(const Place& place, const YAML::Mark& mark, const YAML::Node& node, const Option& option) {
  if (!node.IsSequence() || !option.takes_list) return scalar(place, mark, node, option.long_name);
  return fmt::format("{}", fmt::join(scalars(place, mark, node, option.long_name), ","));
}

void apply_own(const Place& place, const YAML::Mark& mark, const YAML::Node& node, const FileKey& key) {
  const auto set = [&](const YAML::Mark& where, const std::string& item, const std::vector<std::string>& values) {
    try {
      key.set(item, values);
    } catch (const Error& error) {
      place.fail(where, fmt::format("{}: {}", key.name, error.what()));
    }
  };
  switch (key.form) {
    case FileKey::Form::value:
      return set(mark, "", {scalar(place, mark, node, key.name)});
    case FileKey::Form::list:
      return set(mark, "", scalars(place, mark, node, key.name));
    case FileKey::Form::map_of_lists:
      break;
  }
  if (!node.IsMap()) place.fail(mark, fmt::format("{}: the value is not a map of names and their values", key.name));
  for (const auto& entry : node) {
    const YAML::Mark here = entry.first.Mark();
    const std::string item = scalar(place, here, entry.first, key.name);
    set(here, item, scalars(place, here, entry.second, item));
  }
}

void check_schema(const Place& place, const YAML::Mark& mark, const YAML::Node& value) {
  const std::string schema = scalar(place, mark, value, "schema");
  if (schema == "1") return;
  place.fail(mark, fmt::format("schema {} is not known: this version reads schema 1", quoted(schema)));
}

/// Rejects bytes that YAML does not allow, for a better message than the parser's, and flow nesting, into which
/// yaml-cpp recurses.
void check_text(const Place& place, std::string_view text) {
  int depth = 0;
  YAML::Mark mark;
  for (unsigned char c : text) {
    const bool control = (c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127;
    const bool never_utf8 = c == 0xc0 || c == 0xc1 || c > 0xf4;
    if (control || never_utf8) place.fail(mark, fmt::format("byte 0x{:02x} does not belong in a text file", c));
    if (c == '\n') ++mark.line;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') depth = std::max(0, depth - 1);
    if (depth > kMaxNesting) place.fail(mark, "too deeply nested for a configuration");
  }
}

/// Looks only for where documents begin.
class DocumentStarts : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { last_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
  const YAML::Mark& last() const { return last_; }

 private:
  YAML::Mark last_;
};

/// Not YAML::LoadAll: a stray "," outside a list is never consumed, and yaml-cpp 0.7 then finds documents for ever.
void check_one_document(const Place& place, const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  if (!parser.HandleNextDocument(starts) || !parser.HandleNextDocument(starts)) return;
  place.fail(starts.last(), "a second document begins here: one file holds one configuration");
}

std::vector<std::string> apply_map(const Place& place, Config& config, const YAML::Node& root,
                                   std::span<const FileKey> own) {
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
      check_schema(place, mark, entry.second);
      continue;
    }
    if (const FileKey* own_key = find_own(key, own)) {
      apply_own(place, mark, entry.second, *own_key);
      continue;
    }
    const Option* option = find_key(key);
    if (option == nullptr) fail_unknown_key(place, mark, key, own);
    const std::string text = value_text(place, mark, entry.second, *option);
    try {
      option->set(config, text);
    } catch (const Error& error) {
      place.fail(mark, fmt::format("{}: {}", option->long_name, error.what()));
    }
    names.emplace_back(option->long_name);
  }
  return names;
}

}  // namespace

std::vector<std::string> apply_yaml(Config& config, std::string_view text, const std::string& file_name,
                                    std::span<const FileKey> own) {
  const Place place(file_name);
  if (text.size() > kMaxFileBytes) place.fail({}, "larger than 1 MiB: this is not a configuration");
  check_text(place, text);
  try {
    check_one_document(place, std::string(text));
    const YAML::Node root = YAML::Load(std::string(text));
    if (root.IsNull()) return {};
    if (!root.IsMap()) place.fail(root.Mark(), "not a map of options: write lines such as 'minbytes: 8'");
    const std::vector<std::string> names = apply_map(place, config, root, own);
    try {
      check_size_conflict(names);
    } catch (const Error& error) {
      place.fail(root.Mark(), error.what());
    }
    return names;
  } catch (const YAML::Exception& error) {
    place.fail(error.mark, fmt::format("not valid YAML: {}", printable(error.msg)));
  }
}

}  // namespace busbar
