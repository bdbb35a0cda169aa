#pragma once

#include "common/base/options.h"

#include <string_view>

namespace busbar {

/// A variable that is read for compatibility with nccl-tests.
struct EnvironmentVariable {
  std::string_view name;
  std::string_view help;  ///< one line, no full stop
  void (*set)(Config&, std::string_view text);
};

/// Every variable that is read, in the order in which they are applied.
std::span<const EnvironmentVariable> all_environment_variables();

/// Applies variables that are set and not empty. Throws Error(bad_config) naming the variable.
void apply_environment(Config& config, const ReadEnvironment& environment);

/// The group of `process` under a split such as "MOD 2", "%2", "AND 0x7", "DIV 0b100": AND or &, OR or |, MOD or %, DIV
/// or /, in either case. 0 if `split` is empty. Throws Error(bad_config).
int split_color(std::string_view split, int process);

}  // namespace busbar
