#include "common/backends/open_backend.h"

#include "common/backends/backend_door.h"
#include "common/backends/choose.h"
#include "common/machine/machine_facts.h"
#include "common/processes/collectively.h"
#include "common/processes/gather_records.h"
#include "common/processes/session.h"

#include <map>
#include <set>

namespace busbar {
namespace {

/// What one process sees of its host.
struct ProcessFacts {
  int host_leader = 0;  ///< the lowest rank of the host
  std::string hostname;
  int nranks = 0;
  int gpus_on_bus = 0;
  LocalGpus gpus;
  std::string library_problem;
};

void visit_fields(auto&& visit, ProcessFacts& f) {
  visit("host_leader", f.host_leader);
  visit("hostname", f.hostname);
  visit("nranks", f.nranks);
  visit("gpus_on_bus", f.gpus_on_bus);
  visit("gpu_ids", f.gpus.ids);
  visit("gpu_problem", f.gpus.problem);
  visit("library_problem", f.library_problem);
}

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

/// The processes' facts, one entry per host; a GPU that several processes see counts once.
std::vector<HostFacts> by_host(const std::vector<ProcessFacts>& processes) {
  std::map<int, HostFacts> hosts;
  std::map<int, std::set<std::string>> gpus;
  for (const ProcessFacts& f : processes) {
    HostFacts& host = hosts[f.host_leader];
    host.hostname = f.hostname;
    host.ranks += f.nranks;
    host.gpus_on_bus = f.gpus_on_bus;
    if (host.gpu_problem.empty()) host.gpu_problem = f.gpus.problem;
    if (host.library_problem.empty()) host.library_problem = f.library_problem;
    gpus[f.host_leader].insert(f.gpus.ids.begin(), f.gpus.ids.end());
    host.gpus_usable = static_cast<int>(gpus[f.host_leader].size());
  }
  std::vector<HostFacts> list;
  for (auto& [leader, host] : hosts) list.push_back(std::move(host));
  return list;
}

BackendChoice agree_on_backend(const Config& config, const Comm& world, const Comm& host, ProcessFacts facts) {
  facts.host_leader = world.rank();
  host.broadcast(&facts.host_leader, sizeof facts.host_leader, 0);
  facts.hostname = hostname();
  facts.nranks = config.nthreads * config.ngpus;
  const auto all = gather_records(world, std::vector<ProcessFacts>{std::move(facts)});
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

OpenedBackend open_backend(const Config& config, const Comm& world, const Comm& group, const NcclFields& fields,
                           const Collective* collective) {
  const Comm host = world.split_by_host();
  const ProcessFacts facts = collectively_get(world, "looking for GPUs", [&] { return look_around(config); });
  const BackendDoor& door = door_of(agree_on_backend(config, world, host, facts));
  OpenedBackend opened = door.open({config, world, group, host, facts.gpus, fields, collective});
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
