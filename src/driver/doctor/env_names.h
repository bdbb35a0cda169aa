#pragma once

#include "common/base/outcome.h"

#include <span>
#include <string>
#include <string_view>

namespace busbar {

/// A variable that NCCL's sources look up. Versions are 10000 major + 100 minor + patch.
struct NcclName {
  std::string_view name;  ///< without "NCCL_"
  int first = 0;          ///< version that has it; 0: only the documentation does
  int last = 0;
  bool documented = false;
};

/// All of them, by name (nccl_env_names.inc).
std::span<const NcclName> nccl_names();

/// "2.28.9" as 22809; 0 where it is no version.
int nccl_version_number(std::string_view version);

struct NameVerdict {
  Outcome outcome = Outcome::pass;
  std::string reason;
  std::string remedy;
};

/// What is to be said of a set variable whose name begins with NCCL_: a slip, PyTorch's, removed, deprecated, internal.
/// `version` is that of the NCCL in use, 0 where it is not known. Pure.
NameVerdict judge_nccl_name(std::string_view name, int version);

}  // namespace busbar
