#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace busbar {
namespace {

unsigned active_links(const GpuFacts& gpu) {
  return static_cast<unsigned>(std::ranges::count_if(gpu.nvlinks, [](const NvLink& link) { return link.active; }));
}

unsigned most_links(const HostGpus& host) {
  unsigned most = 0;
  for (const GpuFacts& gpu : host.gpus) most = std::max(most, active_links(gpu));
  return most;
}

/// GPUs joined by NVSwitch are registered with its fabric manager (Hopper and newer).
bool on_fabric(const GpuFacts& gpu) { return gpu.fabric && gpu.fabric->state != 0; }

void judge_nvlinks(const HostGpus& host, const GpuFacts& gpu, const CheckRows& check) {
  if (gpu.nvlinks.empty()) return;
  std::vector<int> down;
  for (const NvLink& link : gpu.nvlinks) {
    if (!link.active) down.push_back(link.link);
  }
  const unsigned active = active_links(gpu), others = most_links(host);
  const NvLinkModel model = nvlink_model(gpu.model);
  // A lone GPU, and cards without a bridge, have links that lead nowhere.
  const bool expected = others > 0 || (host.gpus.size() > 1 && on_fabric(gpu));
  const std::string value = fmt::format("{} of {} active", active, gpu.nvlinks.size());
  if (!expected) return check.ok("not used");
  if (!down.empty()) return check.fail(value, "nvlinks-down", fmt::join(down, ","));
  if (active < others || (model.links > 0 && active < model.links)) {
    return check.fail(value, "nvlinks-missing", std::max(others, model.links));
  }
  check.ok(value);
}

void judge_link_speed(const HostGpus& host, const GpuFacts& gpu, const CheckRows& check) {
  unsigned best = nvlink_model(gpu.model).speed_mbps, least = 0;
  for (const GpuFacts& other : host.gpus) {
    for (const NvLink& link : other.nvlinks) best = std::max(best, link.active ? link.speed_mbps.value_or(0) : 0);
  }
  for (const NvLink& link : gpu.nvlinks) {
    const unsigned speed = link.active ? link.speed_mbps.value_or(0) : 0;
    if (speed > 0) least = least == 0 ? speed : std::min(least, speed);
  }
  if (least == 0) return;
  if (least < best) return check.fail(fmt::format("{} MB/s", least), "nvlink-slow", best);
  check.ok(fmt::format("{} MB/s per link", least));
}

bool in_one_clique(const GpuFacts& a, const GpuFacts& b) {
  const auto registered = [](const GpuFacts& gpu) { return on_fabric(gpu) && gpu.fabric->state == 3; };
  return registered(a) && registered(b) && a.fabric->clique == b.fabric->clique &&
         a.fabric->cluster == b.fabric->cluster;
}

/// The first GPU of the clique that most are in: the odd one is to blame, even if it is the first.
const GpuFacts& of_usual_clique(const HostGpus& host) {
  return *std::ranges::max_element(host.gpus, {}, [&](const GpuFacts& gpu) {
    return std::ranges::count_if(host.gpus, [&](const GpuFacts& other) { return in_one_clique(gpu, other); });
  });
}

void judge_fabric(const HostGpus& host, const GpuFacts& gpu, const CheckRows& check) {
  if (!on_fabric(gpu)) return;
  const GpuFabric& fabric = *gpu.fabric;
  const auto two_bits = [&](unsigned shift) { return (fabric.health >> shift & 3U) == 1; };  // 1: true, 2: false
  if (fabric.state != 3) return check.fail(fabric.state == 1 ? "not started" : "in progress", "fabric-unregistered");
  if (fabric.status != 0) return check.fail(fmt::format("error {}", fabric.status), "fabric-failed");
  if (const GpuFacts& usual = of_usual_clique(host); !in_one_clique(usual, gpu)) {
    return check.fail(fmt::format("clique {}", fabric.clique), "fabric-other-clique", usual.index);
  }
  if (two_bits(0)) return check.fail("degraded", "fabric-degraded");
  if (two_bits(4)) return check.fail("route unhealthy", "fabric-route");
  if (two_bits(2) || two_bits(6)) return check.warn("recovering", "fabric-in-repair");
  check.ok("completed");
}

/// What NCCL needs to reduce inside NVSwitch (NVLS).
void judge_abilities(const HostGpus& host, const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  // A divided GPU has neither, which is reported elsewhere; a lone one has no other to reduce with.
  const bool on_switch = on_fabric(gpu) && host.gpus.size() > 1 && !gpu.mig.value_or(false);
  const auto judge = [&](const char* what, const std::optional<bool>& able, const char* name) {
    const CheckRows check(rows, what, subject);
    if (!able) return;
    if (*able || !on_switch) return check.ok(*able ? "supported" : "not supported");
    check.warn("not supported", name);
  };
  judge("gpu.multicast", gpu.multicast, "no-multicast");
  judge("gpu.cumem", gpu.cumem, "no-cumem");
}

void judge_p2p(const HostGpus& host, const GpuFacts& gpu, const CheckRows& check) {
  constexpr auto kWords = std::to_array<std::string_view>({"", "chipset not supported", "GPU not supported",
                                                           "bridges between them not supported",
                                                           "disabled in the driver's settings", "not supported"});
  if (host.gpus.size() < 2 || gpu.p2p.size() != host.gpus.size()) return;
  std::vector<std::size_t> without;
  int status = 0;
  for (std::size_t i = 0; i < gpu.p2p.size(); ++i) {
    if (gpu.p2p[i] == 0) continue;
    without.push_back(i);
    status = gpu.p2p[i];
  }
  if (without.empty()) return check.ok("with all");
  const bool all = without.size() + 1 == gpu.p2p.size();
  const bool joined = on_fabric(gpu) || most_links(host) > 0;
  const std::string_view word =
      static_cast<std::size_t>(status) < kWords.size() ? kWords[static_cast<std::size_t>(status)] : "unknown";
  check.bad(all && joined ? Outcome::fail : Outcome::warn,
            all ? "with none" : fmt::format("not with GPU {}", fmt::join(without, ",")), "no-p2p", word);
}

void judge_pcie(const GpuFacts& gpu, const CheckRows& check) {
  if (!gpu.pcie_width || !gpu.pcie_generation) return;
  const unsigned width = *gpu.pcie_width, generation = *gpu.pcie_generation;
  const unsigned full_width = gpu.pcie_width_max.value_or(width), full = gpu.pcie_generation_max.value_or(generation);
  const std::string value = fmt::format("gen {} x{} of gen {} x{}", generation, width, full, full_width);
  // An idle GPU may lower the generation to save power, the width stays.
  const bool idle = (gpu.clock_reasons.value_or(0) & 1U) != 0;
  if (width < full_width) return check.fail(value, "pcie-lanes");
  if (generation < full && !idle) return check.warn(value, "pcie-slow");
  check.ok(value);
}

}  // namespace

NvLinkModel nvlink_model(const std::string& model) {
  struct Named {
    std::string_view name, without;
    NvLinkModel links;
  };
  // NVIDIA's data sheets; speeds as NVIDIA's health validation has them. Cards with bridges ("PCIe", "NVL") have
  // others.
  constexpr auto kNamed = std::to_array<Named>({{"A100-SXM", "", {12, 0}},
                                                {"H100", "NVL", {18, 26562}},
                                                {"H200", "NVL", {18, 26562}},
                                                {"B200", "", {18, 53125}},
                                                {"B300", "", {18, 53125}}});
  if (model.find("PCIe") != std::string::npos) return {};
  for (const Named& one : kNamed) {
    if (model.find(one.name) == std::string::npos) continue;
    return !one.without.empty() && model.find(one.without) != std::string::npos ? NvLinkModel{} : one.links;
  }
  return {};
}

void judge_gpu_links(const HostGpus& host, const GpuFacts& gpu, Rows& rows) {
  const std::string subject = gpu_subject(gpu);
  judge_nvlinks(host, gpu, {rows, "gpu.nvlink", subject});
  judge_link_speed(host, gpu, {rows, "gpu.nvlink_speed", subject});
  judge_fabric(host, gpu, {rows, "gpu.fabric", subject});
  judge_abilities(host, gpu, subject, rows);
  judge_p2p(host, gpu, {rows, "gpu.p2p", subject});
  judge_pcie(gpu, {rows, "gpu.pcie", subject});
}

}  // namespace busbar
