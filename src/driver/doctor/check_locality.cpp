#include "common/base/compress_list.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/machine/network.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace busbar {
namespace {

struct Nic {
  std::string name;
  PciFunction function;
};

/// The devices of the model that has the fastest ports, even those that are down now: the question is where they sit.
/// Storage and management have slower ones.
std::vector<Nic> compute_nics(const Probe& probe) {
  const std::vector<RdmaPort> ports = rdma_ports(probe);
  double best = 0;
  for (const RdmaPort& port : ports) best = std::max(best, port.active() ? port.gbit_per_s() : 0);
  std::set<std::string> models;
  for (const RdmaPort& port : ports) {
    if (port.active() && port.gbit_per_s() >= best) models.insert(port.model);
  }
  std::vector<Nic> nics;
  for (const RdmaPort& port : ports) {
    const auto function = pci_function_of(probe, "/sys/class/infiniband/" + port.device);
    const bool known = std::ranges::any_of(nics, [&](const Nic& nic) { return nic.name == port.device; });
    if (function && !known && models.contains(port.model)) nics.push_back({port.device, *function});
  }
  return nics;
}

void check_numa(const Probe& probe, const std::vector<PciFunction>& gpus, const std::vector<Nic>& nics, Rows& rows) {
  std::vector<int> nodes;
  std::set<std::string> unknown;
  const bool several = numa_nodes(probe) > 1;
  for (const PciFunction& gpu : gpus) {
    nodes.push_back(gpu.numa_node);
    if (several && (gpu.numa_node < 0 || gpu.local_cpus.empty())) unknown.insert(gpu.address);
  }
  if (!gpus.empty()) {
    CheckRows(rows, "locality.gpus")
        .agree(fmt::format("{} GPUs on NUMA nodes {}", gpus.size(), fmt::join(nodes, " ")), Outcome::warn,
               "same-cards");
  }
  std::map<int, std::vector<std::string>> names;
  for (const Nic& nic : nics) {
    names[nic.function.numa_node].push_back(nic.name);
    if (several && nic.function.numa_node < 0) unknown.insert(nic.name);
  }
  std::vector<std::string> words;
  for (const auto& [numa, list] : names) words.push_back(fmt::format("{} on NUMA node {}", compress_hosts(list), numa));
  if (!nics.empty()) CheckRows(rows, "locality.nics").agree(joined_words(words, ", "), Outcome::warn, "same-cards");
  if (unknown.empty()) return;
  CheckRows(rows, "locality.numa", fmt::format("{}", fmt::join(unknown, ", "))).warn("not known", "numa-untold");
}

/// A hypervisor that puts everything on one bus hides the tree.
bool tree_is_hidden(const Probe& probe, const std::vector<PciFunction>& gpus) {
  return is_virtual(probe) && std::ranges::all_of(gpus, [](const PciFunction& gpu) {
           return std::ranges::count(gpu.path, '/') <= 4;  // /sys/devices/pci0000:00/0000:00:05.0
         });
}

/// The nearest network card of each GPU.
void check_rails(const Probe& probe, const std::vector<PciFunction>& gpus, const std::vector<Nic>& nics,
                 const CheckRows& check) {
  if (probe.environment.contains("NCCL_TOPO_FILE"))
    return check.skip("NCCL_TOPO_FILE gives NCCL another tree than sysfs");
  if (tree_is_hidden(probe, gpus)) {
    return check.skip(
        "the hypervisor shows no PCI tree: NCCL needs the cloud's topology file "
        "(NCCL_TOPO_FILE)");
  }
  std::vector<std::string> words;
  std::vector<std::string> far;
  std::size_t across = 0;
  for (const PciFunction& gpu : gpus) {
    const Nic* nearest = nullptr;
    for (const Nic& nic : nics) {
      if (nearest == nullptr || pci_path(gpu, nic.function) < pci_path(gpu, nearest->function)) nearest = &nic;
    }
    const PciPath path = pci_path(gpu, nearest->function);
    words.push_back(fmt::format("{} {} {}", gpu.address, name(path), nearest->name));
    if (path >= PciPath::phb) far.push_back(gpu.address);
    across += path == PciPath::sys ? 1 : 0;
  }
  DoctorRow& row = check.agree(joined_words(words, ", "), Outcome::warn, "same-cards");
  if (across == gpus.size()) return mark_bad(row, Outcome::fail, "cards-across");
  if (!far.empty()) mark_bad(row, Outcome::warn, "cards-far", far.size(), gpus.size());
}

}  // namespace

void check_locality(const Probe& probe, Rows& rows) {
  const std::vector<PciFunction> gpus = gpu_functions(probe);
  const std::vector<Nic> nics = compute_nics(probe);
  if (gpus.empty() && nics.empty()) {
    CheckRows(rows, "locality").skip("no GPU and no active RDMA device on the PCI bus");
    return;
  }
  check_numa(probe, gpus, nics, rows);
  if (!gpus.empty() && !nics.empty()) check_rails(probe, gpus, nics, {rows, "locality.rails"});
}

}  // namespace busbar
