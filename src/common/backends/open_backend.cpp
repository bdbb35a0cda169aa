#include "common/backends/open_backend.h"

#include "common/backends/choose.h"
#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/observation_setup.h"
#include "common/backends/ranks_per_gpu.h"
#include "common/base/options.h"
#include "common/base/records.h"
#include "common/machine/gpus_on_bus.h"
#include "common/mpi/collectively.h"
#include "common/mpi/session.h"
#if BUSBAR_HAVE_CUDA
#include "common/backends/nccl/devices.h"
#include "common/backends/nccl/nccl_backend.h"
#include "common/backends/nccl/nccl_library.h"
#endif

#include <map>
#include <set>

namespace busbar {
namespace {

#if BUSBAR_HAVE_CUDA
constexpr bool kBuiltWithNccl = true;
#else
constexpr bool kBuiltWithNccl = false;
#endif

/// What one process sees of its host.
struct ProcessFacts {
  int gpus_on_bus = 0;
  std::vector<std::string> gpu_ids;  ///< usable ones
  std::string gpu_problem;
  std::string nccl_problem;
};

ProcessFacts look_around(const Config& config) {
  ProcessFacts facts;
  // Host memory was asked for: no driver needs to be woken.
  if (config.backend == BackendChoice::mpi) return facts;
  facts.gpus_on_bus = static_cast<int>(gpus_on_bus().size());
#if BUSBAR_HAVE_CUDA
  const LocalGpus gpus = local_gpus();
  facts.gpu_ids = gpus.ids;
  facts.gpu_problem = gpus.problem;
  if (facts.gpus_on_bus > 0 || gpus.count > 0) facts.nccl_problem = nccl_problem();
#endif
  return facts;
}

std::string pack(const ProcessFacts& f, int host_leader, int nranks) {
  std::vector<std::string> fields{std::to_string(host_leader),   hostname(),    std::to_string(nranks),
                                  std::to_string(f.gpus_on_bus), f.gpu_problem, f.nccl_problem};
  fields.insert(fields.end(), f.gpu_ids.begin(), f.gpu_ids.end());
  return pack_record(fields);
}

/// The processes' facts, one entry per host; a GPU that several processes see counts once.
std::vector<HostFacts> by_host(const std::vector<std::string>& packed) {
  std::map<int, HostFacts> hosts;
  std::map<int, std::set<std::string>> gpus;
  for (const std::string& of_process : packed) {
    const std::vector<std::string> f = unpack_records(of_process).at(0);
    const int leader = std::stoi(f.at(0));
    HostFacts& host = hosts[leader];
    host.hostname = f.at(1);
    host.ranks += std::stoi(f.at(2));
    host.gpus_on_bus = std::stoi(f.at(3));
    if (host.gpu_problem.empty()) host.gpu_problem = f.at(4);
    if (host.nccl_problem.empty()) host.nccl_problem = f.at(5);
    gpus[leader].insert(f.begin() + 6, f.end());
    host.gpus_usable = static_cast<int>(gpus[leader].size());
  }
  std::vector<HostFacts> list;
  for (auto& [leader, host] : hosts) list.push_back(std::move(host));
  return list;
}

BackendChoice agree_on_backend(const Config& config, const Comm& world, const Comm& host, const ProcessFacts& facts) {
  int leader = world.rank();
  host.broadcast(&leader, sizeof leader, 0);
  const std::vector<std::string> all = world.gather(pack(facts, leader, config.nthreads * config.ngpus));
  BackendChoice choice = BackendChoice::mpi;
  on_process0(world, [&] { choice = choose_backend(config, by_host(all), kBuiltWithNccl); });
  world.broadcast(&choice, sizeof choice, 0);
  return choice;
}

#if BUSBAR_HAVE_CUDA
/// Whether the launcher shows each process of this host GPUs of its own: several processes, and no GPU seen twice.
bool has_own_gpus(const Comm& host, const ProcessFacts& facts) {
  const std::vector<std::string> all = host.gather(pack_record(facts.gpu_ids));
  std::set<std::string> different;
  std::size_t seen = 0;
  for (const std::string& packed : all) {
    const std::vector<std::string> ids = unpack_records(packed).at(0);
    different.insert(ids.begin(), ids.end());
    seen += ids.size();
  }
  bool own = host.size() > 1 && seen > 0 && different.size() == seen;
  host.broadcast(&own, sizeof own, 0);
  return own;
}

OpenedBackend open_nccl_backend(const Config& config, const Comm& world, const Comm& group, const Comm& host,
                                const ProcessFacts& facts, const NcclFields& fields) {
  ObservationSetup observation;
  collectively(world, "preparing --show-algo", [&] {
    const std::string tuner = config.show_prediction ? find_installed_tuner(nccl_setting) : std::string();
    observation = plan_observation(config, nccl_setting, tuner);
    apply(observation.settings);
  });
  const NcclPlace place{.local_rank = host.rank(),
                        .own_gpus = has_own_gpus(host, facts),
                        .one_host = world.min(std::int64_t{host.size() == world.size()}) == 1,
                        .tuning_log = observation.tuning_log,
                        .fields = fields};
  OpenedBackend opened;
  opened.remarks = observation.remarks;
  opened.backend = make_nccl_backend(world, group, config, place);
  const std::string remark = ranks_per_gpu_remark(config.ranks_per_gpu);
  if (!remark.empty()) opened.remarks.push_back(remark);
  return opened;
}
#endif

}  // namespace

OpenedBackend open_backend(const Config& config, const Comm& world, const Comm& group,
                           [[maybe_unused]] const NcclFields& fields) {
  const Comm host = world.split_by_host();
  const ProcessFacts facts = collectively_get(world, "looking for GPUs", [&] { return look_around(config); });
  OpenedBackend opened;
  if (agree_on_backend(config, world, host, facts) == BackendChoice::mpi) {
    collectively(world, "checking the options", [&] { check_mpi_options(config, world.size()); });
    opened.backend = make_mpi_backend(group, host.size());
  } else {
#if BUSBAR_HAVE_CUDA
    opened = open_nccl_backend(config, world, group, host, facts, fields);
#else
    throw Error(ExitCode::internal, "the NCCL backend was chosen in a build without it");
#endif
  }
  const auto local = static_cast<std::int64_t>(opened.backend->local_ranks().size());
  opened.ranks_per_host = static_cast<int>(world.max(host.size() * local));
  return opened;
}

bool runs_on_host_memory(const Config& config) {
  if (config.backend != BackendChoice::automatic) return config.backend == BackendChoice::mpi;
  if (!gpus_on_bus().empty()) return false;
#if BUSBAR_HAVE_CUDA
  return local_gpus().count == 0;
#else
  return true;
#endif
}

}  // namespace busbar
