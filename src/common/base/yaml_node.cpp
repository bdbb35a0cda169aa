#include "common/base/yaml_node.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace busbar {
namespace {

/// The option that a file may set under this key.
const Option* find_key(std::string_view key) {
  for (const Option& option : all_options())
    if (option.set != nullptr && canonical_key(option.long_name) == canonical_key(key)) return &option;
  return nullptr;
}

std::vector<std::string> valid_keys(std::span<const YamlKey> own) {
  std::vector<std::string> keys{"schema"};
  for (const YamlKey& key : own) keys.emplace_back(key.name);
  for (const Option& option : all_options())
    if (option.set != nullptr) keys.emplace_back(option.long_name);
  return keys;
}

std::vector<Setting> apply_map(Config& config, const YamlValue& root, std::span<const YamlKey> own) {
  std::vector<Setting> settings;
  root.each([&](const YamlValue& value) {
    if (value.key == "schema") return check_yaml_schema(value);
    const auto own_key = std::ranges::find(own, canonical_key(value.key), &YamlKey::name);
    if (own_key != own.end()) return own_key->read(value.as(own_key->name));
    settings.push_back(apply_yaml_option(config, value));
    if (settings.back().option == nullptr) value.fail_unknown("key", value.key, valid_keys(own));
  });
  return settings;
}

}  // namespace

void YamlValue::fail(const std::string& what) const { throw_bad_config(fmt::format("{}:{}: {}", file, line, what)); }

void YamlValue::fail_unknown(std::string_view what, std::string_view word,
                             const std::vector<std::string>& valid) const {
  const std::string nearest = nearest_choice(word, valid);
  fail(fmt::format("unknown {} {}{}; valid {}: {}", what, in_quotes(word),
                   nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), what == "key" ? "keys" : "are",
                   fmt::join(valid, " ")));
}

std::string YamlValue::text() const {
  if (is(YamlTree::Kind::scalar)) return node.scalar;
  const char* kind = is(YamlTree::Kind::map) ? "a map" : is(YamlTree::Kind::list) ? "a list" : "empty";
  fail(fmt::format("{}: the value is {}, not a single value", key, kind));
}

std::vector<std::string> YamlValue::texts() const {
  if (!is(YamlTree::Kind::list)) return {text()};
  return mapped(node.items, [&](const YamlTree& item) { return YamlValue{file, line, item, key}.text(); });
}

void YamlValue::checked(const std::function<void()>& set) const {
  try {
    set();
  } catch (const Error& error) {
    fail(fmt::format("{}: {}", key, error.what()));
  }
}

void YamlValue::each(const std::function<void(const YamlValue&)>& visit) const {
  if (!is(YamlTree::Kind::map)) fail(fmt::format("{}: the value is not a map of keys and values", key));
  std::set<std::string> seen;
  for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const YamlTree& name = node.items[i];
    const YamlValue value{file, name.line, node.items[i + 1], name.scalar};
    if (name.kind != YamlTree::Kind::scalar) value.fail("a key is not a plain word");
    if (!seen.insert(canonical_key(name.scalar)).second)
      value.fail(fmt::format("key {} is given twice", in_quotes(name.scalar)));
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

void YamlValue::each_item(const std::function<void(const YamlValue&)>& visit) const {
  if (!is(YamlTree::Kind::list)) fail(fmt::format("{}: write a list", key));
  for (const YamlTree& item : node.items) visit({file, item.line, item, key});
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
  const YamlTree root = parse_yaml(file, text, own);
  work({file, root.line, root, "the file"});
}

std::string canonical_key(std::string_view key) {
  std::string name(key);
  std::ranges::replace(name, '_', '-');
  return name;
}

Setting apply_yaml_option(Config& config, const YamlValue& value) {
  const Option* option = find_key(value.key);
  if (option == nullptr) return {};
  const YamlValue of_option = value.as(option->long_name);
  // As on the command line.
  const std::string text = option->takes_list ? fmt::format("{}", fmt::join(of_option.texts(), ",")) : of_option.text();
  of_option.checked([&] { option->set(config, text); });
  return {option, text};
}

void check_yaml_schema(const YamlValue& value) {
  const std::string schema = value.text();
  if (schema != "1") value.fail(fmt::format("schema {} is not known: this version reads schema 1", in_quotes(schema)));
}

std::vector<Setting> apply_yaml(Config& config, std::string_view text, const std::string& file_name,
                                std::span<const YamlKey> own) {
  std::vector<Setting> settings;
  with_yaml(file_name, text, [&](const YamlValue& root) {
    if (root.is(YamlTree::Kind::null)) return;
    if (!root.is(YamlTree::Kind::map)) root.fail("not a map of options: write lines such as 'minbytes: 8'");
    settings = apply_map(config, root, own);
    try {
      check_size_conflict(settings);
    } catch (const Error& error) {
      root.fail(error.what());
    }
  });
  return settings;
}

}  // namespace busbar
