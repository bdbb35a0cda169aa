#include "common/backends/nccl/open_nccl_backend.h"

#include "common/backends/nccl/devices.h"
#include "common/backends/nccl/nccl_backend.h"
#include "common/backends/ranks_per_gpu.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace busbar {
namespace {

/// Whether the launcher shows each process of this host GPUs of its own (Slurm's --gpus-per-task and the like).
bool processes_see_own_gpus(const Comm& host) {
  std::string seen;
  for (const std::string& id : local_gpus().ids) seen += id + ' ';
  const std::vector<std::string> all = host.gather(seen);
  const auto differs = [&](const std::string& other) { return other != seen; };
  bool own = std::any_of(all.begin(), all.end(), differs);
  host.broadcast(&own, sizeof own, 0);
  return own;
}

}  // namespace

OpenedBackend open_nccl_backend(const Config& config, const Comm& world, const Comm& group, const Comm& host) {
  const NcclPlace place{
      .local_rank = host.rank(), .own_gpus = processes_see_own_gpus(host), .one_host = host.size() == world.size()};
  OpenedBackend opened;
  opened.backend = make_nccl_backend(world, group, config, place);
  const std::string remark = ranks_per_gpu_remark(config.ranks_per_gpu);
  if (!remark.empty()) opened.remarks.push_back(remark);
  const std::int64_t ranks_here = std::int64_t{host.size()} * config.nthreads * config.ngpus;
  opened.ranks_per_host = static_cast<int>(world.max(ranks_here));
  return opened;
}

}  // namespace busbar
