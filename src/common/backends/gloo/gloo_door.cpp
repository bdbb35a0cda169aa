#include "common/backends/backend_door.h"
#include "common/backends/gloo/gloo_algorithms.h"
#include "common/backends/gloo/gloo_backend.h"
#include "common/backends/gloo/gloo_loader.h"
#include "common/base/error.h"
#include "common/processes/collectively.h"

#include <fmt/format.h>

namespace busbar {
namespace {

const GlooModule& checked_and_loaded(const Config& config, const Comm& world) {
  collectively(world, "checking the options", [&] { check_gloo_options(config, world.size()); });
  return *collectively_get(world, "opening Gloo", [] { return &load_gloo(); });
}

OpenedBackend open_by_request(const OpenRequest& request) {
  const GlooModule& gloo = checked_and_loaded(request.config, request.world);
  OpenedBackend opened;
  opened.backend = make_gloo_backend(gloo, request.world, request.group, request.host.size());
  if (request.collective == &kReduceScatter) {
    opened.remarks.emplace_back(
        "Gloo's reduce_scatter overwrites its input: out of place, a copy of the message is in the time");
  }
  return opened;
}

}  // namespace

const BackendDoor kGlooDoor{.open = open_by_request};

std::unique_ptr<Backend> open_gloo(const Config& config, const Comm& world, const Comm& group,
                                   std::string_view algorithm) {
  const GlooModule& gloo = checked_and_loaded(config, world);
  return make_gloo_backend(gloo, world, group, world.split_by_host().size(), find_gloo_algorithm(algorithm));
}

void check_gloo_options(const Config& config, int nprocesses) {
  const int per_process = config.nthreads * config.ngpus;
  if (per_process != 1) {
    throw Error(ExitCode::not_possible,
                fmt::format("the gloo backend runs one rank per process: instead of -t {} -g {}, use mpirun -n {}",
                            config.nthreads, config.ngpus, static_cast<long long>(nprocesses) * per_process));
  }
  if (config.nonblocking) {
    throw Error(
        ExitCode::not_possible,
        "--nonblocking calls MPI's nonblocking functions, and Gloo has none: leave it out, or use --backend mpi");
  }
  const char* option = config.cudagraph > 0               ? "-G/--cudagraph"
                       : config.device_implementation > 0 ? "-D/--device_implementation"
                       : config.local_register > 0        ? "-R/--local_register"
                       : config.cta_policy                ? "-x/--cta_policy"
                       : config.stream_null               ? "-y/--stream_null"
                       : config.parallel_init             ? "-p/--parallel_init"
                       : config.ranks_per_gpu > 1         ? "--ranks-per-gpu"
                                                          : nullptr;
  if (option == nullptr) return;
  throw Error(ExitCode::not_possible, fmt::format("{} is for GPUs, and the gloo backend measures host memory: leave it "
                                                  "out, or use --backend nccl on a machine with GPUs",
                                                  option));
}

}  // namespace busbar
