#pragma once

#include "collectives/collective.h"
#include "common/backends/gloo/gloo_module.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The setting of compare that chooses Gloo's all_reduce.
inline constexpr std::string_view kGlooAlgorithm = "gloo.algorithm";

/// "ring" or "bcube", or both of "all". Throws Error(bad_config) for a name that there is not, and for a collective for
/// which Gloo has one algorithm.
std::vector<std::string> gloo_algorithms(const Collective& collective, std::string_view value);

/// Of a name of gloo_algorithms.
GlooAlgorithm find_gloo_algorithm(std::string_view name);

/// What --show-algo says where all_reduce was asked for by `all_reduce`: Gloo itself tells nothing.
std::string_view shown_gloo_algorithm(const Collective& collective, GlooAlgorithm all_reduce);

}  // namespace busbar
