#pragma once

#include "common/base/config.h"

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// Reads every YAML file of ours: errors name file and line, and no exception of yaml-cpp reaches the user. Values are
// text, as on the command line.

/// A value in a YAML document.
struct YamlTree {
  enum class Kind : std::uint8_t { null, scalar, list, map };
  Kind kind = Kind::null;
  int line = 1;  ///< from 1
  std::string scalar;
  std::vector<YamlTree> items;  ///< of a list; of a map, keys and values in turn
};

/// The one document in `text`. Throws Error(bad_config) "FILE:LINE: WHAT" for anything else, for a document whose
/// aliases repeat more than it has bytes, and if this build has no yaml-cpp. `own`: a file of the program's that a unit
/// test has checked to be one document; takes half of the time.
YamlTree parse_yaml(const std::string& file, std::string_view text, bool own);

struct YamlKey;
struct Setting;

/// A value in a file: the place for errors, the name for messages, and the value. Refers to all of them.
struct YamlValue {
  const std::string& file;
  int line;  ///< of the key, from 1
  const YamlTree& node;
  std::string_view key;  ///< as in the file

  /// Throws Error(bad_config) "FILE:LINE: WHAT".
  [[noreturn]] void fail(const std::string& what) const;
  /// The same for an unknown word instead of one of `valid`: names the nearest and all.
  [[noreturn]] void fail_unknown(std::string_view what, std::string_view word,
                                 const std::vector<std::string>& valid) const;
  YamlValue as(std::string_view other_key) const { return {file, line, node, other_key}; }
  bool is(YamlTree::Kind kind) const { return node.kind == kind; }

  std::string text() const;
  /// A list of single values, or a single value as a list of one.
  std::vector<std::string> texts() const;
  /// The index in `words`, from 0; the error names them all.
  std::size_t word(std::span<const std::string_view> words) const;
  /// The value that it names in a map; the error names all names.
  const std::string& among(const std::map<std::string, std::string>& named) const;
  /// Calls set() and puts file, line and key before the message of an Error that it throws.
  void checked(const std::function<void()>& set) const;
  /// The result of `parse` for the text.
  template <class Parse>
  auto parsed(Parse parse) const {
    const std::string own = text();
    decltype(parse(own)) result{};
    checked([&] { result = parse(own); });
    return result;
  }

  /// Visits the entries of a map in the file's order. Anything but a map is an error, and so is a repeated key ('-' and
  /// '_' alike).
  void each(const std::function<void(const YamlValue&)>& visit) const;
  /// Visits the items of a list; anything else is an error.
  void each_item(const std::function<void(const YamlValue&)>& visit) const;
  /// Reads a map of these keys; the error about any other, which is no `kind`, names them all.
  void read(const std::vector<YamlKey>& keys, std::string_view kind = "key") const;
};

/// A key of a map, and the reader of its value.
struct YamlKey {
  std::string_view name;  ///< with '-'
  std::function<void(const YamlValue&)> read;
};

/// A key with one value, or a list of them.
YamlKey key_of(std::string_view name, std::string& into);
YamlKey key_of(std::string_view name, std::vector<std::string>& into);
/// A key whose text `parse` reads.
template <class Value, class Parse>
YamlKey key_of(std::string_view name, Value& into, Parse parse) {
  return {name, [&into, parse](const YamlValue& value) { into = value.parsed(parse); }};
}

/// Calls work(root) with the document of a file; throws as parse_yaml does.
void with_yaml(const std::string& file, std::string_view text, const std::function<void(const YamlValue& root)>& work,
               bool own = false);

/// With '-' for '_'.
std::string canonical_key(std::string_view key);

/// Applies a YAML file: a map from long option names ('-' and '_' alike) and `own` keys, a subcommand's, to values,
/// optionally `schema: 1`. Returns the options in the file's order. For any bad bytes throws only
/// Error(bad_config) that names file, line and, for an unknown key, the valid keys.
std::vector<Setting> apply_yaml(Config& config, std::string_view text, const std::string& file_name,
                                std::span<const YamlKey> own = {});

/// Applies the option with that long name as a file may set it; returns it, without an option if there is none.
Setting apply_yaml_option(Config& config, const YamlValue& value);

/// Accepts only `schema: 1`.
void check_yaml_schema(const YamlValue& value);

}  // namespace busbar
