#include "common/base/yaml_node.h"

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/sequences.h"
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

// Marks count from 0; the parser has none for an empty document.
int line_of(const YAML::Mark& mark) { return mark.line < 0 ? 1 : mark.line + 1; }

[[noreturn]] void fail_at(const std::string& file, const YAML::Mark& mark, const std::string& what) {
  throw_bad_config(fmt::format("{}:{}: {}", file, line_of(mark), what));
}

/// Rejects bytes that YAML does not allow, for a better message than the parser's, and deep flow nesting, for which
/// yaml-cpp recurses.
void check_text(const std::string& file, std::string_view text) {
  std::size_t depth = 0;
  YAML::Mark mark;
  for (unsigned char c : text) {
    const bool control = (c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127;
    const bool never_utf8 = c == 0xc0 || c == 0xc1 || c > 0xf4;
    if (control || never_utf8) fail_at(file, mark, fmt::format("byte 0x{:02x} does not belong in a text file", c));
    if (c == '\n') ++mark.line;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') depth -= depth > 0 ? 1 : 0;
    if (depth > kDeepestInput) fail_at(file, mark, "too deeply nested for a configuration");
  }
}

/// Records only where documents begin.
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
void check_one_document(const std::string& file, const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  if (!parser.HandleNextDocument(starts) || !parser.HandleNextDocument(starts)) return;
  fail_at(file, starts.last(), "a second document begins here: one file holds one configuration");
}

/// The option that a file may set under this key.
const Option* find_key(std::string_view key) {
  for (const Option& option : all_options()) {
    if (option.set != nullptr && canonical_key(option.long_name) == canonical_key(key)) return &option;
  }
  return nullptr;
}

}  // namespace

int YamlValue::line() const { return line_of(mark); }

void YamlValue::fail(const std::string& what) const { fail_at(file, mark, what); }

void YamlValue::fail_unknown(std::string_view what, std::string_view word,
                             const std::vector<std::string>& valid) const {
  const std::string nearest = nearest_choice(word, valid);
  fail(fmt::format("unknown {} {}{}; valid {}: {}", what, in_quotes(word),
                   nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), what == "key" ? "keys" : "are",
                   fmt::join(valid, " ")));
}

std::string YamlValue::text() const {
  if (node.IsScalar()) return node.Scalar();
  const char* kind = node.IsMap() ? "a map" : node.IsSequence() ? "a list" : "empty";
  fail(fmt::format("{}: the value is {}, not a single value", key, kind));
}

std::vector<std::string> YamlValue::texts() const {
  if (!node.IsSequence()) return {text()};
  std::vector<std::string> items;
  for (const YAML::Node& item : node) items.push_back(YamlValue{file, mark, item, key}.text());
  return items;
}

void YamlValue::checked(const std::function<void()>& set) const {
  try {
    set();
  } catch (const Error& error) {
    fail(fmt::format("{}: {}", key, error.what()));
  }
}

void YamlValue::each(const std::function<void(const YamlValue&)>& visit) const {
  if (!node.IsMap()) fail(fmt::format("{}: the value is not a map of keys and values", key));
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const YAML::Mark here = entry.first.Mark();
    if (!entry.first.IsScalar()) fail_at(file, here, "a key is not a plain word");
    const std::string name = entry.first.Scalar();
    const YamlValue value{file, here, entry.second, name};
    if (!seen.insert(canonical_key(name)).second) value.fail(fmt::format("key {} is given twice", in_quotes(name)));
    visit(value);
  }
}

std::size_t YamlValue::word(std::span<const std::string_view> words) const {
  const std::string own = text();
  const auto found = std::ranges::find(words, own);
  if (found == words.end()) fail_unknown(key, own, {words.begin(), words.end()});
  return static_cast<std::size_t>(found - words.begin());
}

const std::string& YamlValue::among(const std::map<std::string, std::string>& named) const {
  const auto found = named.find(text());
  if (found != named.end()) return found->second;
  fail_unknown(key, text(), mapped(named, [](const auto& one) { return one.first; }));
}

YamlKey key_of(std::string_view name, std::string& into) {
  return {name, [&into](const YamlValue& value) { into = value.text(); }};
}

YamlKey key_of(std::string_view name, std::vector<std::string>& into) {
  return {name, [&into](const YamlValue& value) { into = value.texts(); }};
}

void YamlValue::each_list(const std::function<void(const std::string&, const std::vector<std::string>&)>& visit) const {
  if (!node.IsMap()) fail(fmt::format("{}: the value is not a map of names and their values", key));
  for (const auto& entry : node) {
    const YAML::Mark here = entry.first.Mark();
    const std::string name = YamlValue{file, here, entry.first, key}.text();
    const std::vector<std::string> values = YamlValue{file, here, entry.second, name}.texts();
    YamlValue{file, here, entry.second, key}.checked([&] { visit(name, values); });
  }
}

void YamlValue::each_item(const std::function<void(const YamlValue&)>& visit) const {
  if (!node.IsSequence()) fail(fmt::format("{}: write a list", key));
  for (const YAML::Node& item : node) {
    const YAML::Mark here = item.Mark();
    visit({file, here, item, key});
  }
}

void YamlValue::read(const std::vector<YamlKey>& keys, std::string_view kind) const {
  each([&](const YamlValue& value) {
    const auto known = std::ranges::find(keys, canonical_key(value.key), &YamlKey::name);
    if (known != keys.end()) return known->read(value);
    value.fail_unknown(kind, value.key, mapped(keys, [](const YamlKey& one) { return std::string(one.name); }));
  });
}

void with_yaml(const std::string& file, std::string_view text, const std::function<void(const YamlValue& root)>& work,
               bool own) {
  if (text.size() > kMostYamlBytes) fail_at(file, {}, "larger than 1 MiB: this is not a configuration");
  check_text(file, text);
  try {
    if (!own) check_one_document(file, std::string(text));
    const YAML::Node root = YAML::Load(std::string(text));
    const YAML::Mark mark = root.Mark();
    work({file, mark, root, "the file"});
  } catch (const YAML::Exception& error) {
    fail_at(file, error.mark, fmt::format("not valid YAML: {}", printable(error.msg)));
  }
}

std::string canonical_key(std::string_view key) {
  std::string name(key);
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string_view apply_yaml_option(Config& config, const YamlValue& value) {
  const Option* option = find_key(value.key);
  if (option == nullptr) return {};
  const YamlValue of_option = value.as(option->long_name);
  // As on the command line.
  const std::string text = option->takes_list ? fmt::format("{}", fmt::join(of_option.texts(), ",")) : of_option.text();
  of_option.checked([&] { option->set(config, text); });
  return option->long_name;
}

void check_yaml_schema(const YamlValue& value) {
  const std::string schema = value.text();
  if (schema != "1") {
    value.fail(fmt::format("schema {} is not known: this version reads schema 1", in_quotes(schema)));
  }
}

namespace {

std::vector<std::string> valid_keys(std::span<const YamlKey> own) {
  std::vector<std::string> keys{"schema"};
  for (const YamlKey& key : own) keys.emplace_back(key.name);
  for (const Option& option : all_options()) {
    if (option.set != nullptr) keys.emplace_back(option.long_name);
  }
  return keys;
}

std::vector<std::string> apply_map(Config& config, const YamlValue& root, std::span<const YamlKey> own) {
  std::vector<std::string> names;
  root.each([&](const YamlValue& value) {
    if (value.key == "schema") return check_yaml_schema(value);
    const auto own_key = std::ranges::find(own, canonical_key(value.key), &YamlKey::name);
    if (own_key != own.end()) return own_key->read(value.as(own_key->name));
    const std::string_view name = apply_yaml_option(config, value);
    if (name.empty()) value.fail_unknown("key", value.key, valid_keys(own));
    names.emplace_back(name);
  });
  return names;
}

}  // namespace

std::vector<std::string> apply_yaml(Config& config, std::string_view text, const std::string& file_name,
                                    std::span<const YamlKey> own) {
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
