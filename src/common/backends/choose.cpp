#include "common/backends/choose.h"

#include "common/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace busbar {
namespace {

constexpr const char* kForceMpi = "or measure host memory on purpose: --backend mpi";

/// Hosts named in a message; the rest is counted, so that a thousand dead nodes do not fill the terminal.
constexpr std::size_t kNamedHosts = 8;

using Describe = std::function<std::string(const HostFacts&)>;

std::string list(const std::vector<const HostFacts*>& hosts, const Describe& describe) {
  std::string text;
  for (std::size_t i = 0; i < std::min(hosts.size(), kNamedHosts); ++i) {
    if (i > 0) text += ", ";
    text += describe(*hosts[i]);
  }
  if (hosts.size() > kNamedHosts) text += fmt::format(", and {} more", hosts.size() - kNamedHosts);
  return text;
}

std::string host_names(const std::vector<const HostFacts*>& hosts) {
  return list(hosts, [](const HostFacts& h) { return h.hostname; });
}

std::vector<const HostFacts*> hosts_where(std::span<const HostFacts> hosts, bool (*holds)(const HostFacts&)) {
  std::vector<const HostFacts*> found;
  for (const HostFacts& h : hosts) {
    if (holds(h)) found.push_back(&h);
  }
  return found;
}

bool has_gpu(const HostFacts& h) { return h.gpus_on_bus > 0 || h.gpus_usable > 0; }

std::string why(const HostFacts& h) { return h.gpu_problem.empty() ? std::string("no usable GPU") : h.gpu_problem; }

[[noreturn]] void refuse(const std::string& text) { throw Error(ExitCode::not_possible, text); }

void require_usable_gpus(std::span<const HostFacts> hosts) {
  const auto without = hosts_where(hosts, [](const HostFacts& h) { return !has_gpu(h); });
  if (!without.empty()) {
    const auto with = hosts_where(hosts, has_gpu);
    refuse(fmt::format("some hosts have GPUs ({}) and some have none ({}): leave the latter out of the job, {}",
                       host_names(with), host_names(without), kForceMpi));
  }
  const auto dead = hosts_where(hosts, [](const HostFacts& h) { return h.gpus_usable == 0; });
  if (!dead.empty()) {
    refuse(fmt::format("GPUs that cannot be used: {}; mend the driver (nvidia-smi must work there), {}",
                       list(dead, [](const HostFacts& h) { return fmt::format("{}: {}", h.hostname, why(h)); }),
                       kForceMpi));
  }
}

void require_library(std::span<const HostFacts> hosts) {
  const auto missing = hosts_where(hosts, [](const HostFacts& h) { return !h.library_problem.empty(); });
  if (missing.empty()) return;
  refuse(fmt::format(
      "{}; {}", list(missing, [](const HostFacts& h) { return fmt::format("{}: {}", h.hostname, h.library_problem); }),
      kForceMpi));
}

/// NCCL_TESTS_DEVICE lets the user deal out the GPUs; whether they suffice then shows per process.
void require_enough_gpus(const Config& config, std::span<const HostFacts> hosts) {
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
  // Sharing takes one rank per process, which -t and -g are not.
  const bool can_share = config.nthreads * config.ngpus == 1;
  const std::string share =
      can_share ? fmt::format("share each GPU for a functional run (--ranks-per-gpu {}), ", most) : std::string();
  refuse(fmt::format("too few GPUs: {}; start fewer ranks there, {}{}", which, share, kForceMpi));
}

}  // namespace

BackendChoice backend_for(const Config& config, MemoryKind memory) {
  if (config.backend != BackendChoice::automatic) return config.backend;
  const auto all = all_backends();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto* t) { return t->memory == memory; });
  return parse_backend((*found)->name).value();
}

BackendChoice choose_backend(const Config& config, std::span<const HostFacts> hosts, bool built_in) {
  const bool no_gpu_anywhere = hosts_where(hosts, has_gpu).empty();
  const BackendChoice choice = backend_for(config, no_gpu_anywhere ? MemoryKind::host : MemoryKind::gpu);
  const BackendTraits& traits = traits_of(choice);
  if (traits.memory == MemoryKind::host) return choice;
  if (no_gpu_anywhere) {
    refuse(fmt::format("--backend {}, but there is no NVIDIA GPU on {}: use --backend mpi (host memory)", traits.name,
                       list(hosts_where(hosts, [](const HostFacts&) { return true; }),
                            [](const HostFacts& h) { return h.hostname; })));
  }
  if (!built_in) {
    refuse(fmt::format("GPUs on {}, but this build has no {} backend: {}, {}", host_names(hosts_where(hosts, has_gpu)),
                       traits.title, traits.how_to_build, kForceMpi));
  }
  require_usable_gpus(hosts);
  require_library(hosts);
  require_enough_gpus(config, hosts);
  return choice;
}

}  // namespace busbar
