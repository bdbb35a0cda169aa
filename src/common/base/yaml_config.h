#pragma once

#include "common/base/config.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Sets what a YAML file says: a map from long option names ('-' and '_' alike) to values, optionally `schema: 1`.
/// Returns the options' names in the file's order. Throws Error(bad_config) that names file, line and, for an unknown
/// key, the valid keys; nothing else, whatever the bytes are.
std::vector<std::string> apply_yaml(Config& config, std::string_view text, const std::string& file_name);

}  // namespace busbar
