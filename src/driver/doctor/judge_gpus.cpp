#include "common/base/text.h"
#include "common/machine/answer_within.h"
#include "common/machine/gpus.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>

namespace busbar {
namespace {

unsigned active_links(const GpuFacts& gpu) {
  return static_cast<unsigned>(std::ranges::count_if(gpu.nvlinks, [](const NvLink& link) { return link.active; }));
}

void judge_ecc(const GpuFacts& gpu, const CheckRows& check) {
  constexpr std::uint64_t kManySram = 10'000, kManyDram = 20'000'000;  // Azure's node health checks
  if (!gpu.ecc_uncorrected && !gpu.sram_uncorrected) return;
  if (const std::uint64_t errors = gpu.ecc_uncorrected.value_or(0); errors > 0) {
    return check.fail(fmt::format("{} uncorrected", errors), "ecc-uncorrected");
  }
  if (const std::uint64_t sram = gpu.sram_uncorrected.value_or(0); sram > 0) {
    return check.fail(fmt::format("{} uncorrected in SRAM", sram), "ecc-sram");
  }
  if (gpu.sram_corrected.value_or(0) > kManySram || gpu.dram_corrected.value_or(0) > kManyDram) {
    return check.warn(
        fmt::format("{} corrected in SRAM, {} in DRAM", gpu.sram_corrected.value_or(0), gpu.dram_corrected.value_or(0)),
        "ecc-corrected");
  }
  check.ok("none uncorrected");
}

void judge_remapping(const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  const CheckRows check(rows, "gpu.row_remap", subject);
  constexpr unsigned kMostRows = 512;  // as many as a GPU can replace (NVIDIA, GPU memory error management)
  if (!gpu.rows_remapped_uncorrected) return;
  const unsigned rows_lost = *gpu.rows_remapped_uncorrected;
  if (gpu.remap_failed || rows_lost > kMostRows) return check.fail("failed", "remap-failed");
  if (gpu.remap_pending) return check.fail("pending", "remap-pending", gpu.index);
  if (rows_lost > 0) return check.warn(fmt::format("{} replaced", rows_lost), "rows-replaced");
  check.ok("none");
}

void judge_retirement(const GpuFacts& gpu, const CheckRows& check) {
  if (!gpu.pages_retired) return;
  if (gpu.retirement_pending) return check.fail("pending", "retirement-pending", gpu.index);
  if (*gpu.pages_retired > 0) return check.warn(fmt::format("{} retired", *gpu.pages_retired), "pages-retired");
  check.ok("none");
}

void judge_clocks(const GpuFacts& gpu, const CheckRows& check) {
  constexpr std::uint64_t kIdle = 0x1, kPowerCap = 0x4;
  if (!gpu.clock_reasons) return;
  const std::vector<std::string> forced = slowdown_words(*gpu.clock_reasons);
  if (!forced.empty()) return check.fail(fmt::format("slowed by {}", fmt::join(forced, " and ")), "clocks-held-down");
  if ((*gpu.clock_reasons & kPowerCap) != 0 && (*gpu.clock_reasons & kIdle) == 0)
    return check.warn("slowed by the power cap", "power-capped");
  check.ok("free");
}

/// 10 degrees below the threshold there is room for a job.
void judge_heat(const CheckRows& check, std::optional<int> now, std::optional<int> threshold) {
  constexpr int kRoom = 10;
  if (!now || !threshold || *threshold <= 0) return;
  const std::string value = fmt::format("{} C, slows down at {} C", *now, *threshold);
  if (*now >= *threshold) return check.fail(value, "too-hot");
  if (*now > *threshold - kRoom) return check.warn(value, "nearly-too-hot");
  check.ok(value);
}

void judge_power(const GpuFacts& gpu, const CheckRows& check) {
  if (!gpu.power_limit_w || !gpu.power_default_w) return;
  const std::string usual = fmt::format("{:.0f}", *gpu.power_default_w);
  const std::string value = fmt::format("{:.0f} of {} W", *gpu.power_limit_w, usual);
  if (*gpu.power_limit_w >= *gpu.power_default_w - 1) return check.ok(value);
  check.warn(value, "power-limit-low", gpu.index, usual);
}

constexpr std::uint64_t kForeign = 100'000'000;  // bytes: display servers and monitors have less

/// Processes of others that hold memory on the GPU, or that none can see.
std::vector<std::string> strangers(const GpuFacts& gpu) {
  std::vector<std::string> found;
  for (const GpuProcess& process : gpu.processes) {
    if (process.ours || process.nbytes <= kForeign) continue;
    found.push_back(fmt::format("{}{} MB by process {}", process.program.empty() ? "" : process.program + ": ",
                                process.nbytes / 1'000'000, process.pid));
  }
  return found;
}

void judge_modes(const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  const CheckRows persistence(rows, "gpu.persistence", subject), mig(rows, "gpu.mig", subject);
  if (gpu.persistence == true) persistence.ok("on");
  if (gpu.persistence == false) persistence.warn("off", "no-persistence");
  if (gpu.mig == true) mig.warn("on", "mig-on", gpu.index);
  if (gpu.mig == false) mig.ok("off");
  if (!gpu.compute_mode) return;
  const CheckRows mode(rows, "gpu.compute_mode", subject);
  if (*gpu.compute_mode == 0) return mode.ok("default");
  if (*gpu.compute_mode == 2) return mode.fail("prohibited", "gpu-prohibited", gpu.index);
  if (strangers(gpu).empty()) return mode.warn("exclusive", "gpu-exclusive", gpu.index);
  mode.fail("exclusive", "gpu-taken", gpu.index);
}

void judge_users(const HostGpus& host, const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  constexpr std::uint64_t kMuch = 1ULL << 30;
  const CheckRows processes(rows, "gpu.processes", subject), memory(rows, "gpu.memory", subject);
  if (const std::vector<std::string> found = strangers(gpu); !found.empty())
    return processes.fail(joined_words(found, ", "), "strange-process");
  processes.ok("none of others");
  if (!gpu.memory_used) return;
  const bool ours = std::ranges::any_of(gpu.processes, [](const GpuProcess& p) { return p.ours; });
  std::vector<std::uint64_t> used;
  for (const GpuFacts& other : host.gpus) {
    if (other.memory_used) used.push_back(*other.memory_used);
  }
  std::ranges::sort(used);
  const std::uint64_t usual = used[(used.size() - 1) / 2];  // the lower one of two: one of two may be held
  const std::string value = fmt::format("{} MiB in use", *gpu.memory_used >> 20);
  if (ours || *gpu.memory_used <= usual + kMuch) return memory.ok(value);
  memory.warn(value, "memory-in-use", usual >> 20);
}

/// "8 x 700 W", or if GPUs differ "7 x 700 W, 1 x 500 W (GPU 3)": equal on equal hosts. Empty: no GPU reports it.
std::string summary(const std::vector<GpuFacts>& gpus, const std::function<std::string(const GpuFacts&)>& of) {
  std::map<std::string, std::vector<int>> values;
  for (const GpuFacts& gpu : gpus) {
    // One that is lost does not answer, which is reported as that.
    if (const std::string value = gpu.lost || gpu.refused ? "" : of(gpu); !value.empty())
      values[value].push_back(gpu.index);
  }
  std::size_t most = 0;
  for (const auto& [value, indexes] : values) most = std::max(most, indexes.size());
  std::vector<std::string> common, odd;
  for (const auto& [value, indexes] : values) {
    if (indexes.size() == most) {
      common.push_back(fmt::format("{} x {}", indexes.size(), value));
    } else {
      odd.push_back(fmt::format("{} x {} (GPU {})", indexes.size(), value, fmt::join(indexes, ",")));
    }
  }
  common.insert(common.end(), odd.begin(), odd.end());
  return joined_words(common, ", ");
}

std::string on_off(const std::optional<bool>& value) { return !value ? "" : *value ? "on" : "off"; }

/// What must be the same within the host and on all hosts.
void judge_equal(const HostGpus& host, Rows& rows) {
  struct Equal {
    const char* check;
    const char* remedy;
    std::function<std::string(const GpuFacts&)> of;
    bool judged_alone = false;  // each GPU has a row of its own about it
  };
  const std::vector<Equal> all = {
      {"gpu.model", "same-gpus",
       [](const GpuFacts& gpu) {
         return gpu.model.empty() || !gpu.memory_nbytes ? gpu.model
                                                        : fmt::format("{} {} MiB", gpu.model, *gpu.memory_nbytes >> 20);
       }},
      {"gpu.vbios", "same-vbios", [](const GpuFacts& gpu) { return gpu.vbios; }},
      {"gpu.ecc_mode", "same-ecc", [](const GpuFacts& gpu) { return on_off(gpu.ecc); }},
      {"gpu.power_limit", "same-power-limit",
       [](const GpuFacts& gpu) { return gpu.power_limit_w ? fmt::format("{:.0f} W", *gpu.power_limit_w) : ""; }, true},
      {"gpu.nvlinks", "same-nvlinks", [](const GpuFacts& gpu) { return fmt::format("{} active", active_links(gpu)); },
       true},
  };
  for (const Equal& one : all) {
    const std::string value = summary(host.gpus, one.of);
    if (value.empty()) continue;
    DoctorRow& row = CheckRows(rows, one.check).agree(value, Outcome::warn, one.remedy);
    if (value.find(',') != std::string::npos && !one.judged_alone) {
      row.outcome = Outcome::warn;
      row.reason = "not the same on all GPUs of the host";
    }
  }
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
  if (active < others || (model.links > 0 && active < model.links))
    return check.fail(value, "nvlinks-missing", std::max(others, model.links));
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

/// What joins GPUs: NVLink, fabric, P2P, PCIe.
void judge_gpu_links(const HostGpus& host, const GpuFacts& gpu, Rows& rows) {
  const std::string subject = gpu_subject(gpu);
  judge_nvlinks(host, gpu, {rows, "gpu.nvlink", subject});
  judge_link_speed(host, gpu, {rows, "gpu.nvlink_speed", subject});
  judge_fabric(host, gpu, {rows, "gpu.fabric", subject});
  judge_abilities(host, gpu, subject, rows);
  judge_p2p(host, gpu, {rows, "gpu.p2p", subject});
  judge_pcie(gpu, {rows, "gpu.pcie", subject});
}

void judge_one(const HostGpus& host, const GpuFacts& gpu, Rows& rows) {
  const std::string subject = gpu_subject(gpu);
  if (gpu.lost || gpu.refused) return CheckRows(rows, "gpu.lost", subject).fail("lost", "gpu-lost");
  if (gpu.needs_reset)
    return CheckRows(rows, "gpu.needs_reset", subject).fail("needs a reset", "gpu-needs-reset", gpu.index);
  judge_ecc(gpu, {rows, "gpu.ecc", subject});
  judge_remapping(gpu, subject, rows);
  judge_retirement(gpu, {rows, "gpu.retired_pages", subject});
  judge_gpu_links(host, gpu, rows);
  judge_clocks(gpu, {rows, "gpu.clocks", subject});
  judge_heat({rows, "gpu.temperature", subject}, gpu.temperature_c, gpu.slowdown_c);
  judge_heat({rows, "gpu.memory_temperature", subject}, gpu.memory_temperature_c, gpu.memory_max_c);
  judge_power(gpu, {rows, "gpu.power_cap", subject});
  judge_modes(gpu, subject, rows);
  judge_users(host, gpu, subject, rows);
}

void add_cuda(HostGpus& host) {
  if (host.gpus.empty()) return;
  for (const CudaAbilities& able :
       answer_within(kGpuPatience, [] { return ask_cuda(); }).value_or(std::vector<CudaAbilities>())) {
    for (GpuFacts& gpu : host.gpus) {
      if (gpu.bus_id != able.bus_id) continue;
      gpu.multicast = able.multicast;
      gpu.cumem = able.cumem;
    }
  }
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

void judge_gpus(const HostGpus& host, Rows& rows) {
  const CheckRows check(rows, "gpu.count");
  const std::string on_bus = fmt::format("{} on the PCI bus", host.on_bus);
  if (!host.library) {
    return host.problem.empty() || host.on_bus > 0 ? check.warn(on_bus, "no-gpu-driver", host.problem)
                                                   : check.skip(host.problem);
  }
  if (!host.problem.empty() && host.gpus.empty()) {
    return host.on_bus > 0 || host.silent ? check.fail(on_bus, "nvml-fails", host.problem)
                                          : check.skip("NVML: " + host.problem);
  }
  DoctorRow& count = check.agree(fmt::format("{}", host.gpus.size()), Outcome::fail, "same-gpu-count");
  if (host.gpus.size() < host.on_bus) {
    count.outcome = Outcome::warn;
    count.reason = fmt::format(
        "the PCI bus shows {}: the driver does not manage all, or the container was not given all", host.on_bus);
  }
  if (host.gpus.empty()) return;
  judge_equal(host, rows);
  for (const GpuFacts& gpu : host.gpus) judge_one(host, gpu, rows);
}

void check_gpus(Rows& rows) {
  HostGpus host = read_gpus_within();
  add_cuda(host);
  judge_gpus(host, rows);
}

}  // namespace busbar
