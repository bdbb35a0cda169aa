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

/// Gloo over TCP on host memory; one rank per process, which find each other over MPI. `group` is a part of `world`,
/// `ranks_on_host` how many processes share this host's memory, `all_reduce` how that is to be run. Collective over
/// `world`. Throws AgreedError where a host has no interface for it; an Error where ranks cannot connect, which ends
/// the job.
std::unique_ptr<Backend> make_gloo_backend(const GlooModule& gloo, const Comm& world, const Comm& group,
                                           int ranks_on_host, GlooAlgorithm all_reduce = GlooAlgorithm::unspecified);

/// For compare: with the algorithm of that name. Collective over `world`.
std::unique_ptr<Backend> open_gloo(const Config& config, const Comm& world, const Comm& group,
                                   std::string_view algorithm);

/// Options that Gloo cannot honour, as check_mpi_options: Error(not_possible) naming option and remedy.
void check_gloo_options(const Config& config, int nprocesses);

/// Sum, prod, max and min of every dtype, which Gloo takes from its caller; nulls for avg and mulsum. Narrow floats as
/// narrow_reduction has them (kernels/host_reduce.h); integers wrap.
GlooReduction gloo_reduction(DType dtype, Op op);

/// Opens libbusbar_gloo.so beside this program, or where `make install` puts it. It stays open until the process ends.
/// Throws Error(not_possible) with the remedy.
const GlooModule& load_gloo();

/// The same of a file.
const GlooModule& load_gloo(const std::string& path);

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
