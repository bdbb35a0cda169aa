#include "common/backends/open_backend.h"

#if BUSBAR_HAVE_CUDA

#include "common/backends/nccl/cuda/nccl_backend.h"
#include "common/backends/nccl/cuda/nccl_library.h"
#include "common/backends/nccl/device_kernels.h"
#include "common/backends/nccl/nccl_observation.h"
#include "common/base/lists.h"
#include "common/processes/comm.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <set>

namespace busbar {
namespace {

/// Whether the launcher shows each process of this host its own GPUs: several processes, and no GPU seen twice.
bool has_own_gpus(const Comm& host, const LocalGpus& gpus) {
  const std::vector<std::string> seen = gather_records(host, gpus.ids);
  const std::set<std::string> different(seen.begin(), seen.end());
  bool own = host.size() > 1 && !seen.empty() && different.size() == seen.size();
  host.broadcast(&own, sizeof own, 0);
  return own;
}

std::string device_kernels_remark(const Collective& collective, const Config& config) {
  return fmt::format("device API kernels: {}, {} blocks of {} threads",
                     device_kernel_name(collective.id, config.device_implementation), config.device_cta_count,
                     kDeviceThreads);
}

/// Why NCCL's threads for the network may lack a CPU next to those of busbar, which poll; empty: they have some.
/// Collective.
std::string binding_remark(const Comm& world, int lanes) {
  constexpr int kForNccl = 3;
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const std::int64_t here = known ? CPU_COUNT(&allowed) : CPU_SETSIZE;
  const bool is_bound = here < lanes + kForNccl && here < sysconf(_SC_NPROCESSORS_ONLN);
  const std::int64_t fewest = world.min(is_bound ? here : std::int64_t{CPU_SETSIZE});
  if (fewest == CPU_SETSIZE) return {};
  return fmt::format("a process is bound to {} CPU{}, which NCCL's threads need too: try mpirun --bind-to none", fewest,
                     fewest == 1 ? "" : "s");
}

OpenedBackend open_nccl(const OpenRequest& request) {
  const Config& config = request.config;
  const Comm& world = request.world;
  ObservationSetup observation;
  collectively(world, "preparing --show-algo", [&] {
    const std::string tuner = config.show_prediction ? find_installed_tuner(nccl_setting) : std::string();
    observation = plan_observation(config, nccl_setting, tuner);
    apply(observation.settings);
  });
  OpenedBackend opened;
  opened.remarks = observation.remarks;
  opened.backend = make_nccl_backend(request, has_own_gpus(request.host, request.gpus), observation, opened.remarks);
  if (const int version = opened.backend->library_version_code(); config.show_algo && version < kNcclWithProfiler) {
    add_once(opened.remarks, fmt::format("--show-algo: NCCL {} does not report what it runs; {} and newer do",
                                         nccl_version_text(version), nccl_version_text(kNcclWithProfiler)));
  }
  add_once(opened.remarks, ranks_per_gpu_remark(config.ranks_per_gpu));
  add_once(opened.remarks, binding_remark(world, config.nthreads));
  if (config.device_implementation > 0) opened.remarks.push_back(device_kernels_remark(*request.collective, config));
  return opened;
}

}  // namespace

const BackendEntry kNcclEntry{.gpus = local_gpus, .problem = nccl_problem, .open = open_nccl};

}  // namespace busbar

#else

namespace busbar {

const BackendEntry kNcclEntry{.built_in = false};

}  // namespace busbar

#endif
