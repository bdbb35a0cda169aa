#include "driver/accept/accept_network.h"

#include "common/base/split_text.h"
#include "driver/doctor/nccl_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace busbar {
namespace {

/// [s] A sick driver takes minutes.
constexpr double kPatience = 10;

using Settings = std::map<std::string, NcclSetting>;

std::string value_of(const Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? "" : found->second.value;
}

/// Registered, and with others than its host's: on one host the cluster's UUID is zero (NCCL, src/mnnvl.cc).
bool is_in_cluster(const GpuFacts& gpu) {
  constexpr int kCompleted = 3;
  return gpu.fabric && gpu.fabric->state == kCompleted && gpu.fabric->status == 0 &&
         gpu.fabric->cluster.find_first_not_of('0') != std::string::npos;
}

bool is_mnnvl(const Settings& settings, const std::vector<std::string>& domains) {
  if (domains.size() < 2 || domains.front().empty() || value_of(settings, "NCCL_MNNVL_ENABLE") == "0") return false;
  return std::ranges::all_of(domains, [&](const std::string& d) { return d == domains.front(); });
}

/// GPUDirect-TCPXO runs over ordinary Ethernet cards: only its plugin's settings tell (Google's guides for A3 Mega set
/// NCCL_FASTRAK_IFNAME and NCCL_FASTRAK_CTRL_DEV; the plugin calls its network FasTrak).
bool is_tcpxo(const Settings& settings) {
  const std::string asked = lower_case(value_of(settings, "NCCL_NET"));
  if (!asked.empty()) return asked == "fastrak";
  return settings.count("NCCL_FASTRAK_IFNAME") != 0 || settings.count("NCCL_FASTRAK_CTRL_DEV") != 0;
}

std::string rdma_network(const Probe& probe) {
  const std::string root = "/sys/class/infiniband";
  bool roce = false;
  for (const std::string& card : probe.list(root)) {
    const std::string driver = probe.link_name(fmt::format("{}/{}/device/driver", root, card)).value_or("");
    if (driver == "efa" || card.starts_with("efa")) return "efa";
    for (const std::string& port : probe.list(fmt::format("{}/{}/ports", root, card))) {
      const std::string layer = probe.read(fmt::format("{}/{}/ports/{}/link_layer", root, card, port)).value_or("");
      if (layer == "InfiniBand") return "ib";
      roce = roce || layer == "Ethernet";
    }
  }
  return roce ? "roce" : "";
}

}  // namespace

std::string nvlink_domain(const HostGpus& gpus) {
  if (gpus.gpus.empty() || !std::ranges::all_of(gpus.gpus, is_in_cluster)) return {};
  const GpuFabric& first = *gpus.gpus.front().fabric;
  const bool same = std::ranges::all_of(gpus.gpus, [&](const GpuFacts& gpu) {
    return gpu.fabric->cluster == first.cluster && gpu.fabric->clique == first.clique;
  });
  return same ? fmt::format("{}/{}", first.cluster, first.clique) : "";
}

std::vector<std::string> nvlink_domains(const Comm& world) {
  const Comm host = world.split_by_host();
  // A host without a domain counts too, so that its answer must differ from that of those who are not asked.
  const std::string mine = host.rank() == 0 ? "=" + nvlink_domain(read_gpus_within(kPatience)) : "";
  std::vector<std::string> domains;
  for (const std::string& answer : world.gather(mine)) {
    if (!answer.empty()) domains.push_back(answer.substr(1));
  }
  return domains;
}

std::string network_of(const Probe& probe, const std::vector<std::string>& domains) {
  const Settings settings = nccl_settings(probe, nccl_conf_files(probe));
  if (is_mnnvl(settings, domains)) return "mnnvl";
  if (is_tcpxo(settings)) return "tcpxo";
  const std::string rdma = rdma_network(probe);
  return rdma.empty() ? "ethernet" : rdma;
}

}  // namespace busbar
