#pragma once

#include "driver/compare/comparison.h"

#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// The environment variables that give a launch the variant's settings: a variable as it is; `ompi.algorithm` and
/// `ompi.segmentsize` as what forces them for the collective, any other `ompi.NAME` as OMPI_MCA_NAME; `nccl.FIELD` as
/// the variable of that field of ncclConfig_t; NCCL_ALGO and NCCL_PROTO for the collective alone, because since NCCL
/// 2.24 a collective for which nothing is left fails. Sizes such as 4M become bytes for NCCL, which reads 4 there.
/// Throws Error(bad_config) for an algorithm or a field that there is not.
std::vector<std::pair<std::string, std::string>> variant_environment(const Variant& variant,
                                                                     const Collective& collective);

}  // namespace busbar
