#include "common/machine/answer_within.h"
#include "common/machine/gpus.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace busbar {
namespace {

void judge_ecc(const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  const CheckRows check(rows, "gpu.ecc", subject);
  constexpr std::uint64_t kManySram = 10'000, kManyDram = 20'000'000;  // Azure's node health checks
  if (!gpu.ecc_uncorrected && !gpu.sram_uncorrected) return;
  if (const std::uint64_t errors = gpu.ecc_uncorrected.value_or(0); errors > 0) {
    check.fail(fmt::format("{} uncorrected", errors),
               "memory errors that were not corrected, since the driver was loaded",
               "drain the host, reset the GPU; return the board if it comes again");
  } else if (const std::uint64_t sram = gpu.sram_uncorrected.value_or(0); sram > 0) {
    check.fail(fmt::format("{} uncorrected in SRAM", sram), "errors in the GPU's own memories cannot be mapped away",
               "return the board");
  } else if (gpu.sram_corrected.value_or(0) > kManySram || gpu.dram_corrected.value_or(0) > kManyDram) {
    check.warn(
        fmt::format("{} corrected in SRAM, {} in DRAM", gpu.sram_corrected.value_or(0), gpu.dram_corrected.value_or(0)),
        "unusually many errors, all corrected", "watch it; uncorrected ones may follow");
  } else {
    check.ok("none uncorrected");
  }
}

void judge_remapping(const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  const CheckRows check(rows, "gpu.row_remap", subject);
  constexpr unsigned kMostRows = 512;  // as many as a GPU can replace (NVIDIA, GPU memory error management)
  if (!gpu.rows_remapped_uncorrected) return;
  const unsigned rows_lost = *gpu.rows_remapped_uncorrected;
  if (gpu.remap_failed || rows_lost > kMostRows) {
    check.fail("failed", "a bad row of memory could not be replaced", "return the board");
  } else if (gpu.remap_pending) {
    check.fail("pending", "a bad row of memory waits to be replaced",
               fmt::format("drain the host; nvidia-smi -r -i {}, or reboot", gpu.index));
  } else if (rows_lost > 0) {
    check.warn(fmt::format("{} replaced", rows_lost),
               "rows of memory with uncorrected errors were replaced; the GPU is good again",
               "watch it; return the board if the number grows");
  } else {
    check.ok("none");
  }
}

void judge_retirement(const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  const CheckRows check(rows, "gpu.retired_pages", subject);
  if (!gpu.pages_retired) return;
  if (gpu.retirement_pending) {
    check.fail("pending", "a bad page of memory waits to be retired",
               fmt::format("drain the host; nvidia-smi -r -i {}, or reboot", gpu.index));
  } else if (*gpu.pages_retired > 0) {
    check.warn(fmt::format("{} retired", *gpu.pages_retired), "bad pages of memory were taken out of use",
               "watch it; NVIDIA replaces boards from 60 on");
  } else {
    check.ok("none");
  }
}

void judge_gpu_memory(const GpuFacts& gpu, Rows& rows) {
  const std::string subject = gpu_subject(gpu);
  judge_ecc(gpu, subject, rows);
  judge_remapping(gpu, subject, rows);
  judge_retirement(gpu, subject, rows);
}

void judge_clocks(const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  const CheckRows check(rows, "gpu.clocks", subject);
  constexpr std::uint64_t kIdle = 0x1, kPowerCap = 0x4;
  if (!gpu.clock_reasons) return;
  const std::vector<std::string> forced = slowdown_words(*gpu.clock_reasons);
  if (!forced.empty()) {
    check.fail(fmt::format("slowed by {}", fmt::join(forced, " and ")), "the clocks are held down",
               "cooling and power of the host: nvidia-smi -q -d PERFORMANCE");
  } else if ((*gpu.clock_reasons & kPowerCap) != 0 && (*gpu.clock_reasons & kIdle) == 0) {
    check.warn("slowed by the power cap", "the GPU works at its power limit",
               "nobody else's job there? nvidia-smi; the limit: nvidia-smi -q -d POWER");
  } else {
    check.ok("free");
  }
}

/// 10 degrees below the threshold there is room for a job.
void judge_heat(const char* check, const std::string& subject, std::optional<int> now, std::optional<int> threshold,
                Rows& rows) {
  constexpr int kRoom = 10;
  if (!now || !threshold || *threshold <= 0) return;
  const std::string value = fmt::format("{} C, slows down at {} C", *now, *threshold);
  const char* remedy = "air flow, fans, filters and coolant of the host";
  if (*now >= *threshold) {
    rows.push_back(bad_row(Outcome::fail, check, subject, value, "too hot", remedy));
  } else if (*now > *threshold - kRoom) {
    rows.push_back(bad_row(Outcome::warn, check, subject, value, "little room below the threshold", remedy));
  } else {
    rows.push_back(ok_row(check, subject, value));
  }
}

void judge_power(const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  const CheckRows check(rows, "gpu.power_cap", subject);
  if (!gpu.power_limit_w || !gpu.power_default_w) return;
  const std::string value = fmt::format("{:.0f} of {:.0f} W", *gpu.power_limit_w, *gpu.power_default_w);
  if (*gpu.power_limit_w < *gpu.power_default_w - 1) {
    check.warn(value, "the power limit is below the default",
               fmt::format("nvidia-smi -i {} -pl {:.0f}", gpu.index, *gpu.power_default_w));
  } else {
    check.ok(value);
  }
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
  if (gpu.persistence) {
    rows.push_back(*gpu.persistence ? ok_row("gpu.persistence", subject, "on")
                                    : bad_row(Outcome::warn, "gpu.persistence", subject, "off",
                                              "the driver starts the GPU anew for every job: slow first calls",
                                              "systemctl enable --now nvidia-persistenced"));
  }
  if (gpu.mig) {
    rows.push_back(*gpu.mig ? bad_row(Outcome::warn, "gpu.mig", subject, "on",
                                      "the GPU is divided: NCCL sees parts, without NVLink",
                                      fmt::format("nvidia-smi -i {} -mig 0", gpu.index))
                            : ok_row("gpu.mig", subject, "off"));
  }
  if (!gpu.compute_mode) return;
  const std::string remedy = fmt::format("nvidia-smi -i {} -c DEFAULT", gpu.index);
  const bool others = !strangers(gpu).empty();
  switch (*gpu.compute_mode) {
    case 0:
      rows.push_back(ok_row("gpu.compute_mode", subject, "default"));
      break;
    case 2:
      rows.push_back(
          bad_row(Outcome::fail, "gpu.compute_mode", subject, "prohibited", "no program may use it", remedy));
      break;
    default:
      rows.push_back(bad_row(others ? Outcome::fail : Outcome::warn, "gpu.compute_mode", subject, "exclusive",
                             others ? "one process may use it, and another one does" : "only one process may use it",
                             remedy));
  }
}

void judge_users(const HostGpus& host, const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  constexpr std::uint64_t kMuch = 1ULL << 30;
  if (const std::vector<std::string> found = strangers(gpu); !found.empty()) {
    rows.push_back(bad_row(Outcome::fail, "gpu.processes", subject, fmt::format("{}", fmt::join(found, ", ")),
                           "somebody else's process holds memory there", "end it, or another host"));
    return;
  }
  rows.push_back(ok_row("gpu.processes", subject, "none of others"));
  if (!gpu.memory_used) return;
  const bool ours = std::ranges::any_of(gpu.processes, [](const GpuProcess& p) { return p.ours; });
  std::vector<std::uint64_t> used;
  for (const GpuFacts& other : host.gpus) {
    if (other.memory_used) used.push_back(*other.memory_used);
  }
  std::ranges::sort(used);
  const std::uint64_t usual = used[(used.size() - 1) / 2];  // the lower one of two: one of two may be held
  const std::string value = fmt::format("{} MiB in use", *gpu.memory_used >> 20);
  if (!ours && *gpu.memory_used > usual + kMuch) {
    rows.push_back(bad_row(
        Outcome::warn, "gpu.memory", subject, value,
        fmt::format("others of the host have {} MiB in use: a process that is not visible from here?", usual >> 20),
        "nvidia-smi on the host itself; a job that did not end"));
  } else {
    rows.push_back(ok_row("gpu.memory", subject, value));
  }
}

void judge_gpu_state(const HostGpus& host, const GpuFacts& gpu, Rows& rows) {
  const std::string subject = gpu_subject(gpu);
  judge_clocks(gpu, subject, rows);
  judge_heat("gpu.temperature", subject, gpu.temperature_c, gpu.slowdown_c, rows);
  judge_heat("gpu.memory_temperature", subject, gpu.memory_temperature_c, gpu.memory_max_c, rows);
  judge_power(gpu, subject, rows);
  judge_modes(gpu, subject, rows);
  judge_users(host, gpu, subject, rows);
}

/// "8 x 700 W", or where GPUs differ "7 x 700 W, 1 x 500 W (GPU 3)": equal on equal hosts. Empty: no GPU tells.
std::string summary(const std::vector<GpuFacts>& gpus, const std::function<std::string(const GpuFacts&)>& of) {
  std::map<std::string, std::vector<int>> values;
  for (const GpuFacts& gpu : gpus) {
    // One that is lost does not answer, which is told as that.
    if (const std::string value = gpu.lost ? "" : of(gpu); !value.empty()) values[value].push_back(gpu.index);
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
  return fmt::format("{}", fmt::join(common, ", "));
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
      {"gpu.model", "hosts of one kind",
       [](const GpuFacts& gpu) {
         return gpu.model.empty() || !gpu.memory_nbytes ? gpu.model
                                                        : fmt::format("{} {} MiB", gpu.model, *gpu.memory_nbytes >> 20);
       }},
      {"gpu.vbios", "flash the same VBIOS", [](const GpuFacts& gpu) { return gpu.vbios; }},
      {"gpu.ecc_mode", "nvidia-smi -e 1, and reboot", [](const GpuFacts& gpu) { return on_off(gpu.ecc); }},
      {"gpu.power_limit", "nvidia-smi -pl",
       [](const GpuFacts& gpu) { return gpu.power_limit_w ? fmt::format("{:.0f} W", *gpu.power_limit_w) : ""; }, true},
      {"gpu.nvlinks", "nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager",
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
    DoctorRow row = equal_row(one.check, "", value, Outcome::warn, one.remedy);
    if (value.find(',') != std::string::npos && !one.judged_alone) {
      row.outcome = Outcome::warn;
      row.reason = "not the same on all GPUs of the host";
    }
    rows.push_back(std::move(row));
  }
}

void judge_one(const HostGpus& host, const GpuFacts& gpu, Rows& rows) {
  const std::string subject = gpu_subject(gpu);
  if (gpu.lost) {
    rows.push_back(
        bad_row(Outcome::fail, "gpu.lost", subject, "lost", "it does not answer the driver any more",
                "dmesg | grep Xid; reboot; power and PCIe seating of the board; return it if it comes again"));
    return;
  }
  if (gpu.needs_reset) {
    rows.push_back(bad_row(Outcome::fail, "gpu.needs_reset", subject, "needs a reset",
                           "the driver refuses it until then",
                           fmt::format("nvidia-smi -r -i {}, or reboot", gpu.index)));
    return;
  }
  judge_gpu_memory(gpu, rows);
  judge_gpu_links(host, gpu, rows);
  judge_gpu_state(host, gpu, rows);
}

// Without persistence mode the driver takes seconds per GPU to start.
constexpr double kPatience = 30;  // [s]

void add_cuda(HostGpus& host) {
  if (host.gpus.empty()) return;
  for (const CudaAbilities& able :
       answer_within(kPatience, [] { return ask_cuda(); }).value_or(std::vector<CudaAbilities>())) {
    for (GpuFacts& gpu : host.gpus) {
      if (gpu.bus_id != able.bus_id) continue;
      gpu.multicast = able.multicast;
      gpu.cumem = able.cumem;
    }
  }
}

}  // namespace

void judge_gpus(const HostGpus& host, Rows& rows) {
  constexpr const char* kCheck = "gpu.count";
  if (!host.problem.empty() && host.on_bus == 0 && !host.library)
    return rows.push_back(skip_row(kCheck, "", host.problem));
  if (!host.library) {
    rows.push_back(bad_row(Outcome::warn, kCheck, "", fmt::format("{} on the PCI bus", host.on_bus), host.problem,
                           "install the driver, or give the container its GPUs (--gpus all)"));
    return;
  }
  if (!host.problem.empty() && host.gpus.empty()) {
    const bool dead = host.on_bus > 0 || host.silent;
    rows.push_back(dead ? bad_row(Outcome::fail, kCheck, "", fmt::format("{} on the PCI bus", host.on_bus),
                                  "NVML: " + host.problem, "nvidia-smi; dmesg | grep NVRM; reboot")
                        : skip_row(kCheck, "", "NVML: " + host.problem));
    return;
  }
  DoctorRow count = equal_row(kCheck, "", fmt::format("{}", host.gpus.size()), Outcome::fail,
                              "nvidia-smi -L and lspci -d 10de: on that host; dmesg | grep NVRM");
  if (host.gpus.size() < host.on_bus) {
    count.outcome = Outcome::warn;
    count.reason = fmt::format(
        "the PCI bus shows {}: the driver does not manage all, or the container was not given all", host.on_bus);
  }
  rows.push_back(std::move(count));
  if (host.gpus.empty()) return;
  judge_equal(host, rows);
  for (const GpuFacts& gpu : host.gpus) judge_one(host, gpu, rows);
}

void check_gpus(Rows& rows) {
  HostGpus host = read_gpus_within(kPatience);
  add_cuda(host);
  judge_gpus(host, rows);
}

}  // namespace busbar
