#pragma once

#include "common/base/config.h"

#include <functional>
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

/// Where errors are, in messages. Keeps a reference to the name.
class YamlPlace {
 public:
  explicit YamlPlace(const std::string& file) : file_(file) {}
  /// Throws Error(bad_config) "FILE:LINE: WHAT".
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const;
  /// The same for an unknown word where one of `valid` was wanted: names the nearest and all.
  [[noreturn]] void fail_unknown(const YAML::Mark& mark, std::string_view what, std::string_view word,
                                 const std::vector<std::string>& valid) const;
  /// Line of a mark, from 1.
  static int line(const YAML::Mark& mark);

 private:
  const std::string& file_;
};

/// Calls work(root) with the one document of a file; throws Error(bad_config) for text that is no such thing, whatever
/// the bytes are, and in place of yaml-cpp's exceptions.
void with_yaml(const YamlPlace& place, std::string_view text, const std::function<void(const YAML::Node& root)>& work);

/// Calls visit(key, where, value) for every entry of a map in the file's order; a key given twice ('-' and '_' alike)
/// is an error, and so is anything but a map; `what` names it.
void for_each_key(
    const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& map, std::string_view what,
    const std::function<void(const std::string& key, const YAML::Mark& where, const YAML::Node& value)>& visit);

/// A key of a map, and what its value is for; `key` is as the file writes it.
struct YamlKey {
  std::string_view name;  ///< with '-'
  std::function<void(const std::string& key, const YAML::Mark& at, const YAML::Node& value)> read;
};

/// Reads a map of these keys; the file's error about any other, which is no `kind`, names them all.
void read_keys(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& map, std::string_view what,
               const std::vector<YamlKey>& keys, std::string_view kind = "key");

/// A single value; `mark` is that of its key, which an empty value does not have.
std::string yaml_scalar(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key);

/// A list of single values, or one that stands for such a list.
std::vector<std::string> yaml_scalars(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node,
                                      std::string_view key);

/// Which of these words a single value is; the file's error about any other names them all.
std::size_t yaml_word(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key,
                      const std::vector<std::string>& valid);

/// Calls set() and puts file, line and key before the message of an Error that it throws.
void yaml_set(const YamlPlace& place, const YAML::Mark& mark, std::string_view key, const std::function<void()>& set);

/// A key whose single value goes to `to` as parse(text), an Error of which gets file, line and key.
template <class Value, class Parse = std::identity>
YamlKey value_key(const YamlPlace& place, std::string_view name, Value& to, Parse parse = {}) {
  return {name, [&place, &to, parse](const std::string& key, const YAML::Mark& at, const YAML::Node& value) {
            const std::string text = yaml_scalar(place, at, value, key);
            yaml_set(place, at, key, [&] { to = parse(text); });
          }};
}

/// A key whose list, or single value, goes to `to`.
YamlKey list_key(const YamlPlace& place, std::string_view name, std::vector<std::string>& to);

/// With '_' as '-'.
std::string canonical_key(std::string_view key);

/// The option of that long name as a file may set it, applied; returns its name, empty where there is none.
std::string_view apply_yaml_option(const YamlPlace& place, Config& config, const std::string& key,
                                   const YAML::Mark& mark, const YAML::Node& value);

/// `schema: 1` and no other.
void check_yaml_schema(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& value);

}  // namespace busbar
