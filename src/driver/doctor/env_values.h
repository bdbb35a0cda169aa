#pragma once

#include "driver/doctor/env_names.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace busbar {

/// How many processes the job has, as its launcher tells in the environment; nothing: not told.
struct JobShape {
  std::optional<int> on_host;
  std::optional<int> in_all;
  bool one_per_host() const { return on_host == 1; }
  bool one_host() const { return on_host && in_all && *on_host == *in_all; }
};
JobShape job_shape(const std::map<std::string, std::string>& environment);

/// Why the value of an NCCL_* variable is wrong or risky: ranges of the fields that it goes to, lists of words with the
/// nearest one, numbers that NCCL does not read as they are meant. `version` as for judge_nccl_name. Pure.
NameVerdict judge_nccl_value(std::string_view name, std::string_view value, int version, const JobShape& job);

/// What a value takes away from NCCL's speed or safety; passes where it is nothing. CUDA's variables too. Pure.
NameVerdict judge_slow_setting(std::string_view name, std::string_view value);

}  // namespace busbar
