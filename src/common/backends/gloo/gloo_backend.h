#pragma once

#include "collectives/dtype.h"
#include "collectives/op.h"
#include "common/backends/backend.h"
#include "common/backends/gloo/gloo_module.h"
#include "common/base/config.h"
#include "common/processes/comm.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Gloo over TCP on host memory; one rank per process; the ranks find each other over MPI. `group` is a part of
/// `world`, `ranks_on_host` how many processes share this host's memory, `all_reduce` the algorithm. Collective over
/// `world`. Throws AgreedError if a host has no interface for it; an Error if ranks cannot connect, which ends the job.
std::unique_ptr<Backend> make_gloo_backend(const GlooModule& gloo, const Comm& world, const Comm& group,
                                           int ranks_on_host, GlooAlgorithm all_reduce = GlooAlgorithm::unspecified);

/// For compare: with a named algorithm. Collective over `world`.
std::unique_ptr<Backend> open_gloo(const Config& config, const Comm& world, const Comm& group,
                                   std::string_view algorithm);

/// Sum, prod, max and min of every dtype, which Gloo takes from its caller; nulls for avg and mulsum. Narrow floats as
/// in narrow_reduction (kernels/host.h); integers wrap.
GlooReduction gloo_reduction(DType dtype, Op op);

/// Opens libbusbar_gloo.so next to this program, or where `make install` puts it. It stays open until the process ends.
/// Throws Error(not_possible) with the remedy.
const GlooModule& load_gloo();

/// The same for a given file.
const GlooModule& load_gloo(const std::string& path);

/// The setting of compare that chooses Gloo's all_reduce.
inline constexpr std::string_view kGlooAlgorithm = "gloo.algorithm";

/// "ring" or "bcube", or both for "all". Throws Error(bad_config) for an unknown name, and for a collective for which
/// Gloo has only one algorithm.
std::vector<std::string> gloo_algorithms(const Collective& collective, std::string_view value);

/// By a name of gloo_algorithms.
GlooAlgorithm find_gloo_algorithm(std::string_view name);

/// What --show-algo prints if `all_reduce` was requested; Gloo itself reports nothing.
std::string_view shown_gloo_algorithm(const Collective& collective, GlooAlgorithm all_reduce);

}  // namespace busbar
