#include "common/base/text.h"
#include "common/machine/answer_within.h"
#include "common/machine/gpus.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

namespace busbar {
namespace {

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
  if ((*gpu.clock_reasons & kPowerCap) != 0 && (*gpu.clock_reasons & kIdle) == 0) {
    return check.warn("slowed by the power cap", "power-capped");
  }
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
  if (const std::vector<std::string> found = strangers(gpu); !found.empty()) {
    return processes.fail(joined_words(found, ", "), "strange-process");
  }
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
      {"gpu.nvlinks", "same-nvlinks",
       [](const GpuFacts& gpu) {
         std::size_t active = 0;
         for (const NvLink& link : gpu.nvlinks) active += link.active ? 1 : 0;
         return fmt::format("{} active", active);
       },
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

void judge_one(const HostGpus& host, const GpuFacts& gpu, Rows& rows) {
  const std::string subject = gpu_subject(gpu);
  if (gpu.lost || gpu.refused) return CheckRows(rows, "gpu.lost", subject).fail("lost", "gpu-lost");
  if (gpu.needs_reset) {
    return CheckRows(rows, "gpu.needs_reset", subject).fail("needs a reset", "gpu-needs-reset", gpu.index);
  }
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
