#pragma once

#include "common/base/config.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace YAML {
class Node;
struct Mark;
}  // namespace YAML

namespace busbar {

// What every YAML file of ours is read with: errors that name file and line, and nothing of yaml-cpp's own that could
// reach the user. Values are text, as on the command line.

struct YamlKey;

/// A value in a file: where errors are, in messages, and what is there. Refers to all of them.
struct YamlValue {
  const std::string& file;
  const YAML::Mark& mark;  ///< of the key: an empty value has none
  const YAML::Node& node;
  std::string_view key;  ///< as the file has it

  /// Throws Error(bad_config) "FILE:LINE: WHAT".
  [[noreturn]] void fail(const std::string& what) const;
  /// The same for an unknown word where one of `valid` was wanted: names the nearest and all.
  [[noreturn]] void fail_unknown(std::string_view what, std::string_view word,
                                 const std::vector<std::string>& valid) const;
  int line() const;  ///< from 1
  YamlValue as(std::string_view other_key) const { return {file, mark, node, other_key}; }

  std::string text() const;
  /// A list of single values, or one that stands for such a list.
  std::vector<std::string> texts() const;
  /// Which of `words` it is, counted from 0; the error names them all.
  std::size_t word(std::span<const std::string_view> words) const;
  /// What it names in a map; the error names all that there are.
  const std::string& among(const std::map<std::string, std::string>& named) const;
  /// Calls set() and puts file, line and key before the message of an Error that it throws.
  void checked(const std::function<void()>& set) const;
  /// What `parse` makes of the text.
  template <class Parse>
  auto parsed(Parse parse) const {
    const std::string own = text();
    decltype(parse(own)) result{};
    checked([&] { result = parse(own); });
    return result;
  }

  /// Visits the entries of a map in the file's order; a key given twice ('-' and '_' alike) is an error, and so is
  /// anything but a map.
  void each(const std::function<void(const YamlValue&)>& visit) const;
  /// Visits the names of a map, each with its list of values: {NCCL_ALGO: [Ring, Tree]}. Puts file, line and this key
  /// before the message of an Error.
  void each_list(
      const std::function<void(const std::string& name, const std::vector<std::string>& values)>& visit) const;
  /// Visits the items of a list; anything else is an error.
  void each_item(const std::function<void(const YamlValue&)>& visit) const;
  /// Reads a map of these keys; the error about any other, which is no `kind`, names them all.
  void read(const std::vector<YamlKey>& keys, std::string_view kind = "key") const;
};

/// A key of a map, and what its value is for.
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

/// Calls work(root) with the one document of a file; throws Error(bad_config) for text that is no such thing, whatever
/// the bytes are, and in place of yaml-cpp's exceptions. `own`: a file of the program's, of which a unit test has seen
/// that it is one document; half of the time.
void with_yaml(const std::string& file, std::string_view text, const std::function<void(const YamlValue& root)>& work,
               bool own = false);

/// With '_' as '-'.
std::string canonical_key(std::string_view key);

/// Sets what a YAML file says: a map from long option names ('-' and '_' alike) and `own` keys, a subcommand's, to
/// values, optionally `schema: 1`. Returns the options' names in the file's order. Throws Error(bad_config) that names
/// file, line and, for an unknown key, the valid keys; nothing else, whatever the bytes are.
std::vector<std::string> apply_yaml(Config& config, std::string_view text, const std::string& file_name,
                                    std::span<const YamlKey> own = {});

/// The option of that long name as a file may set it, applied; returns its name, empty where there is none.
std::string_view apply_yaml_option(Config& config, const YamlValue& value);

/// `schema: 1` and no other.
void check_yaml_schema(const YamlValue& value);

}  // namespace busbar
