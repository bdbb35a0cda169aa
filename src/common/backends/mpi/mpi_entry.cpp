#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/open_backend.h"
#include "common/base/error.h"
#include "common/processes/comm.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace busbar {
namespace {

OpenedBackend open_mpi(const OpenRequest& request) {
  collectively(request.world, "checking the options", [&] { check_mpi_options(request.config, request.world.size()); });
  OpenedBackend opened;
  opened.backend = make_mpi_backend(request.group, request.host.size(), std::nullopt, request.config.nonblocking);
  return opened;
}

}  // namespace

const BackendEntry kMpiEntry{.open = open_mpi};

void check_mpi_options(const Config& config, int nprocesses) {
  const auto refuse = [](std::string_view option, std::string_view why) {
    throw_not_possible(
        fmt::format("{} is not possible with the mpi backend: {}; leave it out, or use "
                    "--backend nccl on a machine with GPUs",
                    option, why));
  };
  if (config.cudagraph > 0) refuse("-G/--cudagraph", "host memory has no CUDA graphs");
  if (config.device_implementation > 0) refuse("-D/--device_implementation", "there are no device kernels");
  if (config.local_register > 0) refuse("-R/--local_register", "MPI registers buffers itself");
  if (config.cta_policy) refuse("-x/--cta_policy", "there are no CTAs");
  if (config.stream_null) refuse("-y/--stream_null", "there are no streams");
  if (config.parallel_init) refuse("-p/--parallel_init", "a process has one communicator");
  if (config.ranks_per_gpu > 1) refuse("--ranks-per-gpu", "ranks run on cores");
  const int per_process = config.nthreads * config.ngpus;
  if (per_process == 1) return;
  throw_not_possible(
      fmt::format("the mpi backend runs one rank per process: instead of {} process{} with -t {} -g {}, use "
                  "mpirun -n {}",
                  nprocesses, nprocesses == 1 ? "" : "es", config.nthreads, config.ngpus,
                  static_cast<long long>(nprocesses) * per_process));
}

}  // namespace busbar
