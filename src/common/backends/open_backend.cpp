#include "common/backends/open_backend.h"

#include "common/base/error.h"
#include "common/base/packed_fields.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/processes/comm.h"
#include "common/processes/mpi/mpi_session.h"
#include "common/processes/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace busbar {
namespace {

/// What measures host memory there.
std::string_view on_host_memory(Carrier carrier) { return carrier == Carrier::mpi ? "mpi" : "gloo"; }

std::string or_on_purpose(Carrier carrier) {
  return fmt::format("or measure host memory on purpose: --backend {}", on_host_memory(carrier));
}

/// Hosts named in a message; the others are counted, so that a thousand dead nodes do not fill the terminal.
constexpr std::size_t kNamedHosts = 8;

using Describe = std::function<std::string(const HostFacts&)>;

std::string list(const std::vector<const HostFacts*>& hosts, const Describe& describe) {
  std::vector<std::string> named;
  for (const HostFacts* host : std::span(hosts).first(std::min(hosts.size(), kNamedHosts)))
    named.push_back(describe(*host));
  std::string text = joined_words(named, ", ");
  if (hosts.size() > kNamedHosts) text += fmt::format(", and {} more", hosts.size() - kNamedHosts);
  return text;
}

std::string host_names(const std::vector<const HostFacts*>& hosts) {
  return list(hosts, [](const HostFacts& h) { return h.hostname; });
}

std::vector<const HostFacts*> hosts_where(std::span<const HostFacts> hosts, bool (*holds)(const HostFacts&)) {
  std::vector<const HostFacts*> found;
  for (const HostFacts& h : hosts)
    if (holds(h)) found.push_back(&h);
  return found;
}

bool has_gpu(const HostFacts& h) { return h.gpus_on_bus > 0 || h.gpus_usable > 0; }

void require_usable_gpus(std::span<const HostFacts> hosts, const std::string& or_else) {
  const auto without = hosts_where(hosts, [](const HostFacts& h) { return !has_gpu(h); });
  if (!without.empty()) {
    const auto with = hosts_where(hosts, has_gpu);
    throw_not_possible(
        fmt::format("some hosts have GPUs ({}), and some have none ({}): start no ranks on those without, {}",
                    host_names(with), host_names(without), or_else));
  }
  const auto dead = hosts_where(hosts, [](const HostFacts& h) { return h.gpus_usable == 0; });
  if (!dead.empty()) {
    throw_not_possible(fmt::format("GPUs that cannot be used: {}; fix the driver (nvidia-smi must work there), {}",
                                   list(dead,
                                        [](const HostFacts& h) {
                                          return fmt::format("{}: {}", h.hostname,
                                                             h.gpu_problem.empty() ? "no usable GPU" : h.gpu_problem);
                                        }),
                                   or_else));
  }
}

void require_library(std::span<const HostFacts> hosts, const std::string& or_else) {
  const auto missing = hosts_where(hosts, [](const HostFacts& h) { return !h.library_problem.empty(); });
  if (missing.empty()) return;
  throw_not_possible(fmt::format(
      "{}; {}", list(missing, [](const HostFacts& h) { return fmt::format("{}: {}", h.hostname, h.library_problem); }),
      or_else));
}

/// With NCCL_TESTS_DEVICE the user assigns the GPUs; each process then shows whether they suffice.
void require_enough_gpus(const Config& config, std::span<const HostFacts> hosts, const std::string& or_else) {
  if (config.base_device) return;
  std::vector<const HostFacts*> short_of;
  int most = 1;
  for (const HostFacts& h : hosts) {
    if (h.ranks <= h.gpus_usable * config.ranks_per_gpu) continue;
    short_of.push_back(&h);
    most = std::max(most, (h.ranks + h.gpus_usable - 1) / h.gpus_usable);
  }
  if (short_of.empty()) return;
  const std::string which = list(short_of, [](const HostFacts& h) {
    std::string text = fmt::format("{}: {} ranks but {} usable GPU{}", h.hostname, h.ranks, h.gpus_usable,
                                   h.gpus_usable == 1 ? "" : "s");
    if (!h.gpu_problem.empty()) text += fmt::format(" ({})", h.gpu_problem);
    return text;
  });
  // Sharing needs one rank per process, which -t and -g break.
  const bool can_share = config.nthreads * config.ngpus == 1;
  const std::string share =
      can_share ? fmt::format("share each GPU for a functional run (--ranks-per-gpu {}), ", most) : std::string();
  throw_not_possible(fmt::format("too few GPUs: {}; start fewer ranks there, {}{}", which, share, or_else));
}

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
  BUSBAR_FIELDS(visit, f, host_leader, hostname, nranks, gpus_on_bus);
  visit("gpu_ids", f.gpus.ids);
  visit("gpu_problem", f.gpus.problem);
  visit("library_problem", f.library_problem);
}

ProcessFacts look_around(const Config& config, Carrier carrier) {
  ProcessFacts facts;
  const BackendChoice choice = backend_for(config, MemoryKind::gpu, carrier);
  // Host memory was requested: no driver needs to be woken.
  if (traits_of(choice).memory == MemoryKind::host) return facts;
  facts.gpus_on_bus = static_cast<int>(gpus_on_bus().size());
  const BackendEntry& entry = entry_of(choice);
  if (!entry.built_in) return facts;
  facts.gpus = entry.gpus();
  if (facts.gpus_on_bus > 0 || facts.gpus.count > 0) facts.library_problem = entry.problem();
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
  const bool built_in = entry_of(backend_for(config, MemoryKind::gpu, world.carrier())).built_in;
  BackendChoice choice = BackendChoice::automatic;
  on_process0(world, [&] { choice = choose_backend(config, by_host(all), built_in, world.carrier()); });
  world.broadcast(&choice, sizeof choice, 0);
  return choice;
}

}  // namespace

BackendChoice backend_for(const Config& config, MemoryKind memory, Carrier carrier) {
  if (config.backend != BackendChoice::automatic) return config.backend;
  const auto all = all_backends();
  const auto found = std::ranges::find_if(
      all, [&](const auto* t) { return t->memory == memory && (carrier == Carrier::mpi || !t->needs_mpi); });
  return from_word<BackendChoice>((*found)->name).value();
}

BackendChoice choose_backend(const Config& config, std::span<const HostFacts> hosts, bool built_in, Carrier carrier) {
  const bool no_gpu_anywhere = hosts_where(hosts, has_gpu).empty();
  const BackendChoice choice = backend_for(config, no_gpu_anywhere ? MemoryKind::host : MemoryKind::gpu, carrier);
  const BackendTraits& traits = traits_of(choice);
  if (traits.needs_mpi && carrier != Carrier::mpi) {
    const std::string why = why_no_mpi();
    throw_not_possible(
        fmt::format("--backend {}: {}, or measure host memory with --backend gloo", traits.name,
                    why.empty() ? "these processes run without MPI: start them with mpirun" : std::string_view(why)));
  }
  if (traits.memory == MemoryKind::host) return choice;
  const std::string or_else = or_on_purpose(carrier);
  if (no_gpu_anywhere) {
    throw_not_possible(fmt::format("--backend {}, but there is no NVIDIA GPU on {}: use --backend {} (host memory)",
                                   traits.name, host_names(hosts_where(hosts, [](const HostFacts&) { return true; })),
                                   on_host_memory(carrier)));
  }
  if (!built_in) {
    throw_not_possible(fmt::format("GPUs on {}, but this build has no {} backend: {}, {}",
                                   host_names(hosts_where(hosts, has_gpu)), traits.title, traits.how_to_build,
                                   or_else));
  }
  require_usable_gpus(hosts, or_else);
  require_library(hosts, or_else);
  require_enough_gpus(config, hosts, or_else);
  return choice;
}

const BackendEntry& entry_of(BackendChoice choice) {
  switch (choice) {
    case BackendChoice::automatic:
      break;
#define BUSBAR_CASE(name, Name) \
  case BackendChoice::name:     \
    return k##Name##Entry;
      BUSBAR_BACKENDS(BUSBAR_CASE)
#undef BUSBAR_CASE
  }
  throw Error(ExitCode::internal, "a backend must be chosen before it is opened");
}

OpenedBackend open_backend(const Config& config, const Comm& world, const Comm& group, const NcclFields& fields,
                           const Collective* collective) {
  const Comm host = world.split_by_host();
  const ProcessFacts facts =
      collectively_get(world, "looking for GPUs", [&] { return look_around(config, world.carrier()); });
  const BackendEntry& entry = entry_of(agree_on_backend(config, world, host, facts));
  OpenedBackend opened = entry.open({config, world, group, host, facts.gpus, fields, collective});
  const auto local = static_cast<std::int64_t>(opened.backend->local_ranks().size());
  opened.ranks_per_host = static_cast<int>(world.max(host.size() * local));
  return opened;
}

bool runs_on_host_memory(const Config& config) {
  const BackendChoice for_gpus = backend_for(config, MemoryKind::gpu, Carrier::mpi);
  if (config.backend != BackendChoice::automatic) return traits_of(for_gpus).memory == MemoryKind::host;
  if (!gpus_on_bus().empty()) return false;
  const BackendEntry& entry = entry_of(for_gpus);
  return !entry.built_in || entry.gpus().count == 0;
}

}  // namespace busbar
