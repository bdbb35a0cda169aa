#include "common/base/yaml_node.h"

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/suggest.h"
#include "common/base/text.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace busbar {
namespace {

/// Rejects bytes that YAML does not allow, for a better message than the parser's, and flow nesting, into which
/// yaml-cpp recurses.
void check_text(const YamlPlace& place, std::string_view text) {
  std::size_t depth = 0;
  YAML::Mark mark;
  for (unsigned char c : text) {
    const bool control = (c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127;
    const bool never_utf8 = c == 0xc0 || c == 0xc1 || c > 0xf4;
    if (control || never_utf8) place.fail(mark, fmt::format("byte 0x{:02x} does not belong in a text file", c));
    if (c == '\n') ++mark.line;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') depth -= depth > 0 ? 1 : 0;
    if (depth > kDeepestInput) place.fail(mark, "too deeply nested for a configuration");
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
void check_one_document(const YamlPlace& place, const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  if (!parser.HandleNextDocument(starts) || !parser.HandleNextDocument(starts)) return;
  place.fail(starts.last(), "a second document begins here: one file holds one configuration");
}

/// Options that a file may set.
const Option* find_key(std::string_view key) {
  for (const Option& option : all_options()) {
    if (option.set != nullptr && canonical_key(option.long_name) == canonical_key(key)) return &option;
  }
  return nullptr;
}

/// A value as the command line would write it; list items are joined with commas.
std::string value_text(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, const Option& option) {
  if (!node.IsSequence() || !option.takes_list) return yaml_scalar(place, mark, node, option.long_name);
  return fmt::format("{}", fmt::join(yaml_scalars(place, mark, node, option.long_name), ","));
}

}  // namespace

// Marks count from 0; the parser has none for an empty document.
int YamlPlace::line(const YAML::Mark& mark) { return mark.line < 0 ? 1 : mark.line + 1; }

void YamlPlace::fail(const YAML::Mark& mark, const std::string& what) const {
  throw Error(ExitCode::bad_config, fmt::format("{}:{}: {}", file_, line(mark), what));
}

void YamlPlace::fail_unknown(const YAML::Mark& mark, std::string_view what, std::string_view word,
                             const std::vector<std::string>& valid) const {
  const std::string nearest = nearest_choice(word, valid);
  fail(mark, fmt::format("unknown {} {}{}; valid {}: {}", what, in_quotes(word),
                         nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest),
                         what == "key" ? "keys" : "are", fmt::join(valid, " ")));
}

void with_yaml(const YamlPlace& place, std::string_view text, const std::function<void(const YAML::Node& root)>& work) {
  if (text.size() > kMostYamlBytes) place.fail({}, "larger than 1 MiB: this is not a configuration");
  check_text(place, text);
  try {
    check_one_document(place, std::string(text));
    work(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& error) {
    place.fail(error.mark, fmt::format("not valid YAML: {}", printable(error.msg)));
  }
}

void for_each_key(
    const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& map, std::string_view what,
    const std::function<void(const std::string& key, const YAML::Mark& where, const YAML::Node& value)>& visit) {
  if (!map.IsMap()) place.fail(mark, fmt::format("{}: the value is not a map of keys and values", what));
  std::set<std::string> seen;
  for (const auto& entry : map) {
    const YAML::Mark here = entry.first.Mark();
    if (!entry.first.IsScalar()) place.fail(here, "a key is not a plain word");
    const std::string key = entry.first.Scalar();
    if (!seen.insert(canonical_key(key)).second) place.fail(here, fmt::format("key {} is given twice", in_quotes(key)));
    visit(key, here, entry.second);
  }
}

void read_keys(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& map, std::string_view what,
               const std::vector<YamlKey>& keys, std::string_view kind) {
  for_each_key(place, mark, map, what, [&](const std::string& key, const YAML::Mark& at, const YAML::Node& value) {
    for (const YamlKey& known : keys) {
      if (known.name == canonical_key(key)) return known.read(key, at, value);
    }
    std::vector<std::string> valid;
    for (const YamlKey& known : keys) valid.emplace_back(known.name);
    place.fail_unknown(at, kind, key, valid);
  });
}

std::string yaml_scalar(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key) {
  if (node.IsScalar()) return node.Scalar();
  const char* kind = node.IsMap() ? "a map" : node.IsSequence() ? "a list" : "empty";
  place.fail(mark, fmt::format("{}: the value is {}, not a single value", key, kind));
}

std::vector<std::string> yaml_scalars(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node,
                                      std::string_view key) {
  if (!node.IsSequence()) return {yaml_scalar(place, mark, node, key)};
  std::vector<std::string> items;
  for (const YAML::Node& item : node) items.push_back(yaml_scalar(place, mark, item, key));
  return items;
}

std::size_t yaml_word(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key,
                      const std::vector<std::string>& valid) {
  const std::string word = yaml_scalar(place, mark, node, key);
  const auto found = std::ranges::find(valid, word);
  if (found == valid.end()) place.fail_unknown(mark, key, word, valid);
  return static_cast<std::size_t>(found - valid.begin());
}

void yaml_set(const YamlPlace& place, const YAML::Mark& mark, std::string_view key, const std::function<void()>& set) {
  try {
    set();
  } catch (const Error& error) {
    place.fail(mark, fmt::format("{}: {}", key, error.what()));
  }
}

YamlKey list_key(const YamlPlace& place, std::string_view name, std::vector<std::string>& to) {
  return {name, [&place, &to](const std::string& key, const YAML::Mark& at, const YAML::Node& value) {
            to = yaml_scalars(place, at, value, key);
          }};
}

std::string canonical_key(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string_view apply_yaml_option(const YamlPlace& place, Config& config, const std::string& key,
                                   const YAML::Mark& mark, const YAML::Node& value) {
  const Option* option = find_key(key);
  if (option == nullptr) return {};
  const std::string text = value_text(place, mark, value, *option);
  yaml_set(place, mark, option->long_name, [&] { option->set(config, text); });
  return option->long_name;
}

void check_yaml_schema(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& value) {
  const std::string schema = yaml_scalar(place, mark, value, "schema");
  if (schema == "1") return;
  place.fail(mark, fmt::format("schema {} is not known: this version reads schema 1", in_quotes(schema)));
}

}  // namespace busbar
