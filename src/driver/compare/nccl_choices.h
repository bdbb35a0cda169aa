#pragma once

#include "common/backends/backend.h"

#include <optional>
#include <string>
#include <string_view>

namespace busbar {

// What NCCL_ALGO and NCCL_PROTO can choose between, from NCCL 2.28's sources (src/init.cc, src/graph/tuning.cc,
// src/device/generate.py). Pure: nothing of NCCL is needed.

/// NCCL's spelling ("Ring", "^NVLS") of an algorithm or protocol in any case; a leading ^ means all but this one.
/// Throws Error(bad_config) naming the choices.
std::string nccl_algorithm_name(std::string_view text);
std::string nccl_protocol_name(std::string_view text);

/// The value that forces it for one collective alone: "allreduce:tree". The others keep what they had, because since
/// NCCL 2.24 a collective for which nothing is left fails.
std::string for_collective(const Collective& collective, std::string_view value);

/// Why no kernel, or no NCCL, runs this; nothing where one may. `algorithm` and `protocol` are names as above, or empty
/// where NCCL chooses.
std::optional<std::string> nccl_why_not(const Operation& op, std::string_view algorithm, std::string_view protocol,
                                        int nnodes, int ranks_per_node);

}  // namespace busbar
