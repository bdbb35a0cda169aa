#include "common/backends/open_backend.h"

#include "common/backends/backend_door.h"
#include "common/backends/choose.h"
#include "common/base/records.h"
#include "common/machine/machine_facts.h"
#include "common/mpi/collectively.h"
#include "common/mpi/session.h"

#include <map>
#include <set>

namespace busbar {
namespace {

/// What one process sees of its host.
struct ProcessFacts {
  int gpus_on_bus = 0;
  LocalGpus gpus;
  std::string library_problem;
};

ProcessFacts look_around(const Config& config) {
  ProcessFacts facts;
  const BackendChoice choice = backend_for(config, MemoryKind::gpu);
  // Host memory was asked for: no driver needs to be woken.
  if (traits_of(choice).memory == MemoryKind::host) return facts;
  facts.gpus_on_bus = static_cast<int>(gpus_on_bus().size());
  const BackendDoor& door = door_of(choice);
  if (!door.built_in) return facts;
  facts.gpus = door.gpus();
  if (facts.gpus_on_bus > 0 || facts.gpus.count > 0) facts.library_problem = door.problem();
  return facts;
}

std::string pack(const ProcessFacts& f, int host_leader, int nranks) {
  std::vector<std::string> fields{std::to_string(host_leader),   hostname(),     std::to_string(nranks),
                                  std::to_string(f.gpus_on_bus), f.gpus.problem, f.library_problem};
  fields.insert(fields.end(), f.gpus.ids.begin(), f.gpus.ids.end());
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
    if (host.library_problem.empty()) host.library_problem = f.at(5);
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
  const bool built_in = door_of(backend_for(config, MemoryKind::gpu)).built_in;
  BackendChoice choice = BackendChoice::automatic;
  on_process0(world, [&] { choice = choose_backend(config, by_host(all), built_in); });
  world.broadcast(&choice, sizeof choice, 0);
  return choice;
}

}  // namespace

const BackendDoor& door_of(BackendChoice choice) {
  switch (choice) {
    case BackendChoice::automatic:
      break;
#define BUSBAR_CASE(name, Name) \
  case BackendChoice::name:     \
    return k##Name##Door;
      BUSBAR_BACKENDS(BUSBAR_CASE)
#undef BUSBAR_CASE
  }
  throw Error(ExitCode::internal, "a backend was to be opened before one was chosen");
}

OpenedBackend open_backend(const Config& config, const Comm& world, const Comm& group, const NcclFields& fields) {
  const Comm host = world.split_by_host();
  const ProcessFacts facts = collectively_get(world, "looking for GPUs", [&] { return look_around(config); });
  const BackendDoor& door = door_of(agree_on_backend(config, world, host, facts));
  OpenedBackend opened = door.open({config, world, group, host, facts.gpus, fields});
  const auto local = static_cast<std::int64_t>(opened.backend->local_ranks().size());
  opened.ranks_per_host = static_cast<int>(world.max(host.size() * local));
  return opened;
}

bool runs_on_host_memory(const Config& config) {
  const BackendChoice for_gpus = backend_for(config, MemoryKind::gpu);
  if (config.backend != BackendChoice::automatic) return traits_of(for_gpus).memory == MemoryKind::host;
  if (!gpus_on_bus().empty()) return false;
  const BackendDoor& door = door_of(for_gpus);
  return !door.built_in || door.gpus().count == 0;
}

}  // namespace busbar
