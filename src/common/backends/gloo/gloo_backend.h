#pragma once

#include "common/backends/backend.h"
#include "common/backends/gloo/gloo_module.h"
#include "common/base/config.h"
#include "common/processes/comm.h"

#include <memory>
#include <string_view>

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

}  // namespace busbar
