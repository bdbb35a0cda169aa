#pragma once

#include "common/base/config.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A key that a caller reads from the same file beside the options: a subcommand's own.
struct FileKey {
  enum class Form {
    value,         ///< delta: 2%
    list,          ///< collectives: [all_reduce, broadcast]
    map_of_lists,  ///< vary: {NCCL_ALGO: [Ring, Tree]}
  };
  std::string_view name;
  Form form = Form::value;
  /// Called once, or once per entry of a map with its name in `item`. A single value stands for a list of one. Throws
  /// Error(bad_config) without naming file, line and key.
  std::function<void(const std::string& item, const std::vector<std::string>& values)> set;
};

/// Sets what a YAML file says: a map from long option names ('-' and '_' alike) and `own` keys to values, optionally
/// `schema: 1`. Returns the options' names in the file's order. Throws Error(bad_config) that names file, line and, for
/// an unknown key, the valid keys; nothing else, whatever the bytes are.
std::vector<std::string> apply_yaml(Config& config, std::string_view text, const std::string& file_name,
                                    std::span<const FileKey> own = {});

}  // namespace busbar
