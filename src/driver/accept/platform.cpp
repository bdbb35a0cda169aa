#include "driver/accept/platform.h"

#include "common/backends/backend.h"
#include "common/backends/backend_traits.h"
#include "common/base/embedded_file.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/base/yaml_node.h"
#include "driver/accept/read_accept_plan.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

namespace busbar {
namespace {

int parse_count(const std::string& text) { return parse_int(text, 1, 1 << 20); }

YamlKey network_key(std::string& into) {
  static constexpr std::array<std::string_view, 6> kNetworks{"ib", "roce", "efa", "tcpxo", "mnnvl", "ethernet"};
  return {"network", [&into](const YamlValue& value) { into = kNetworks[value.word(kNetworks)]; }};
}

/// "8G", or [8G, 16G] for all sizes from the first to the last.
void read_sizes(const YamlValue& value, PlatformEntry& entry) {
  const std::vector<std::string> sizes = value.texts();
  if (sizes.empty() || sizes.size() > 2) value.fail("sizes: one size, or the first and the last");
  value.checked([&] {
    entry.nbytes_min = parse_bytes(sizes.front());
    entry.nbytes_max = parse_bytes(sizes.back());
  });
  if (entry.nbytes_min > entry.nbytes_max) value.fail("sizes: the first is above the last");
}

PlatformEntry read_entry(const YamlValue& map) {
  PlatformEntry e;
  std::optional<FigureKind> kind;
  map.read({{"collective", [&](const YamlValue& v) { e.collective = read_collective(v)->name; }},
            {"nodes", [&](const YamlValue& v) { e.nodes_min = e.nodes_max = v.parsed(parse_count); }},
            key_of("ranks", e.nranks, parse_count),
            network_key(e.network),
            {"sizes", [&](const YamlValue& v) { read_sizes(v, e); }},
            key_of("algorithm", e.algorithm),
            key_of("busbw", e.busbw, parse_gigabytes),
            {"kind", [&](const YamlValue& v) { kind = static_cast<FigureKind>(v.word(words_of(FigureKind{}))); }},
            key_of("source", e.source)});
  // A number without a source is no expectation.
  if (e.source.empty()) map.fail("a number without source");
  if (!kind) map.fail("a number without kind: measured or threshold");
  e.kind = *kind;
  if (e.collective.empty() || e.nbytes_max == 0 || e.busbw <= 0) map.fail("collective, sizes and busbw are needed");
  return e;
}

PlatformCeiling read_ceiling(const YamlValue& map) {
  PlatformCeiling c;
  map.read({network_key(c.network),
            {"collective", [&](const YamlValue& v) { c.collective = read_collective(v)->name; }},
            key_of("algorithm", c.algorithm),
            key_of("busbw", c.busbw, parse_gigabytes),
            key_of("source", c.source)});
  if (c.source.empty()) map.fail("a number without source");
  if (c.algorithm.empty() || c.busbw <= 0) map.fail("algorithm and busbw are needed");
  return c;
}

void read_root(const YamlValue& root, Platform& p) {
  root.read({{"schema", check_yaml_schema},
             key_of("gpu", p.gpu),
             key_of("gpu-not", p.gpu_not),
             key_of("gpus-per-node", p.gpus_per_node, parse_count),
             {"ceilings",
              [&](const YamlValue& list) {
                list.each_item([&](const YamlValue& v) { p.ceilings.push_back(read_ceiling(v)); });
              }},
             {"expect", [&](const YamlValue& list) {
                list.each_item([&](const YamlValue& v) { p.entries.push_back(read_entry(v)); });
              }}});
  if (p.gpu.empty()) root.fail("gpu: a word of the device's name is needed");
  if (p.gpus_per_node == 0) root.fail("gpus-per-node is needed");
}

bool is_platform(const Platform& platform, const std::string& device) {
  // "NVIDIA A100-SXM4-80GB" as nvidia, a100, sxm4, 80gb: GB200 is not a B200.
  std::string plain = lower_case(device);
  std::ranges::replace_if(
      plain, [](unsigned char c) { return std::isalnum(c) == 0; }, ',');
  const std::vector<std::string> all = listed_words(plain);
  return contains(all, lower_case(platform.gpu)) &&
         std::ranges::none_of(platform.gpu_not,
                              [&](const std::string& word) { return contains(all, lower_case(word)); });
}

bool same_word(const std::string& a, const std::string& b) { return lower_case(a) == lower_case(b); }

/// Whether the entry is about this cell, whatever algorithm ran.
bool speaks_of(const PlatformEntry& e, const Platform& platform, const std::string& network, const Cell& cell) {
  const int nranks = e.nranks != 0 ? e.nranks : cell.nhosts * platform.gpus_per_node;
  return e.collective == cell.collective && cell.nbytes >= e.nbytes_min && cell.nbytes <= e.nbytes_max &&
         cell.nhosts >= e.nodes_min && cell.nhosts <= e.nodes_max && cell.nranks == nranks &&
         (cell.nhosts == 1 || e.network.empty() || e.network == network);
}

std::string why_nothing(const Platform& platform, const std::string& network, const Cell& cell) {
  return fmt::format("{} has no number for {} at {} bytes on {} with {} ranks{}", platform.name, cell.collective,
                     cell.nbytes, counted(cell.nhosts, "node"), cell.nranks,
                     cell.nhosts == 1 ? "" : fmt::format(" over {}", network.empty() ? "an unknown network" : network));
}

/// A measured figure says more than what a vendor still accepts.
bool says_more(const PlatformEntry* a, const PlatformEntry* b) {
  if (b == nullptr) return true;
  if (a->kind != b->kind) return a->kind == FigureKind::measured;
  return a->busbw > b->busbw;
}

/// [s] A sick driver takes minutes.
constexpr double kDriverPatience = 10;

/// Registered, together with GPUs of other hosts: on one host the cluster's UUID is zero (NCCL, src/mnnvl.cc).
bool is_in_cluster(const GpuFacts& gpu) {
  constexpr int kCompleted = 3;
  return gpu.fabric && gpu.fabric->state == kCompleted && gpu.fabric->status == 0 &&
         gpu.fabric->cluster.find_first_not_of('0') != std::string::npos;
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

Platform read_platform(std::string_view text, const std::string& file_name) {
  Platform platform;
  platform.name = std::filesystem::path(file_name).stem().string();
  with_yaml(file_name, text, [&](const YamlValue& root) { read_root(root, platform); });
  return platform;
}

std::vector<Platform> shipped_platforms() {
  return mapped(embedded_platforms(), [](const EmbeddedFile& f) { return read_platform(f.text, std::string(f.name)); });
}

RecognisedPlatform recognise_platform(const std::vector<Platform>& platforms,
                                      const std::vector<AcceptResult::Host>& hosts) {
  std::set<std::string> names;
  for (const AcceptResult::Host& host : hosts) names.insert(host.device.substr(0, host.device.rfind(" x ")));
  if (names.empty()) return {nullptr, "no host is known"};
  if (names.size() > 1) return {nullptr, fmt::format("the hosts have different devices: {}", fmt::join(names, ", "))};
  const std::string& device = *names.begin();
  if (device == kHostMemory) return {nullptr, "host memory: no platform's numbers apply"};
  for (const Platform& platform : platforms) {
    if (is_platform(platform, device)) return {&platform, {}};
  }
  return {nullptr, fmt::format("no platform's table is about {}", device)};
}

Expected expected_busbw(const Platform& platform, const std::string& network, const Cell& cell) {
  const PlatformEntry* ran = nullptr;
  const PlatformEntry* any = nullptr;
  const PlatformEntry* other = nullptr;
  for (const PlatformEntry& e : platform.entries) {
    if (!speaks_of(e, platform, network, cell)) continue;
    const PlatformEntry*& best = e.algorithm.empty() ? any : same_word(e.algorithm, cell.algorithm) ? ran : other;
    if (says_more(&e, best)) best = &e;
  }
  if (const PlatformEntry* found = ran != nullptr ? ran : any) {
    const bool is_better = other != nullptr && names_algorithm(cell.algorithm) && other->kind == FigureKind::measured &&
                           other->busbw > found->busbw;
    return {found, is_better ? other : nullptr, {}};
  }
  std::string reason = why_nothing(platform, network, cell);
  if (other != nullptr) {
    reason =
        names_algorithm(cell.algorithm)
            ? fmt::format("{}, with {}", reason, cell.algorithm)
            : fmt::format("the algorithm that ran is not known, and {}'s numbers are per algorithm", platform.name);
  }
  return {nullptr, nullptr, std::move(reason)};
}

Ceiling ceiling_busbw(const Platform& platform, const std::string& network, const Cell& cell) {
  if (!names_algorithm(cell.algorithm))
    return {0, {}, "the algorithm that ran is not known, and ceilings are per algorithm"};
  const bool inside = cell.nhosts == 1;
  for (const PlatformCeiling& c : platform.ceilings) {
    const bool here = inside ? c.network.empty() : !c.network.empty() && c.network == network;
    if (here && same_word(c.algorithm, cell.algorithm) && (c.collective.empty() || c.collective == cell.collective)) {
      return {c.busbw, c.source, {}};
    }
  }
  return {
      0,
      {},
      fmt::format("{} has no ceiling for {} with {} {}", platform.name, cell.collective, cell.algorithm,
                  inside ? "inside a node" : fmt::format("over {}", network.empty() ? "an unknown network" : network))};
}

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
  // A host without a domain counts too, so its answer must differ from that of ranks that are not asked.
  const std::string mine = host.rank() == 0 ? "=" + nvlink_domain(read_gpus_within(kDriverPatience)) : "";
  std::vector<std::string> domains;
  for (const std::string& answer : world.gather(mine)) {
    if (!answer.empty()) domains.push_back(answer.substr(1));
  }
  return domains;
}

std::string network_of(const Probe& probe, const std::vector<std::string>& domains) {
  const std::map<std::string, NcclSetting> settings = nccl_settings(probe, nccl_conf_files(probe));
  const auto value_of = [&](const char* name) { return settings.contains(name) ? settings.at(name).value : ""; };
  const bool one_domain = domains.size() > 1 && !domains.front().empty() &&
                          std::ranges::all_of(domains, [&](const std::string& d) { return d == domains.front(); });
  if (one_domain && value_of("NCCL_MNNVL_ENABLE") != "0") return "mnnvl";
  // GPUDirect-TCPXO runs over ordinary Ethernet cards: only its plugin's settings show it (Google's guides for A3 Mega
  // set NCCL_FASTRAK_IFNAME and NCCL_FASTRAK_CTRL_DEV; the plugin calls its network FasTrak).
  const std::string asked = lower_case(value_of("NCCL_NET"));
  const bool is_set_up = settings.contains("NCCL_FASTRAK_IFNAME") || settings.contains("NCCL_FASTRAK_CTRL_DEV");
  if (asked.empty() ? is_set_up : asked == "fastrak") return "tcpxo";
  const std::string rdma = rdma_network(probe);
  return rdma.empty() ? "ethernet" : rdma;
}

}  // namespace busbar
