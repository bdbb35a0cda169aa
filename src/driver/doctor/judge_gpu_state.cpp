#include "common/machine/nvml_gpus.h"
#include "driver/doctor/judge_gpus.h"
#include "driver/doctor/make_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace busbar {
namespace {

void judge_clocks(const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  constexpr const char* kCheck = "gpu.clocks";
  constexpr std::uint64_t kIdle = 0x1, kPowerCap = 0x4;
  if (!gpu.clock_reasons) return;
  const std::vector<std::string> forced = slowdown_words(*gpu.clock_reasons);
  if (!forced.empty()) {
    rows.push_back(bad_row(Outcome::fail, kCheck, subject, fmt::format("slowed by {}", fmt::join(forced, " and ")),
                           "the clocks are held down", "cooling and power of the host: nvidia-smi -q -d PERFORMANCE"));
  } else if ((*gpu.clock_reasons & kPowerCap) != 0 && (*gpu.clock_reasons & kIdle) == 0) {
    rows.push_back(bad_row(Outcome::warn, kCheck, subject, "slowed by the power cap",
                           "the GPU works at its power limit",
                           "nobody else's job there? nvidia-smi; the limit: nvidia-smi -q -d POWER"));
  } else {
    rows.push_back(ok_row(kCheck, subject, "free"));
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
  constexpr const char* kCheck = "gpu.power_cap";
  if (!gpu.power_limit_w || !gpu.power_default_w) return;
  const std::string value = fmt::format("{:.0f} of {:.0f} W", *gpu.power_limit_w, *gpu.power_default_w);
  if (*gpu.power_limit_w < *gpu.power_default_w - 1) {
    rows.push_back(bad_row(Outcome::warn, kCheck, subject, value, "the power limit is below the default",
                           fmt::format("nvidia-smi -i {} -pl {:.0f}", gpu.index, *gpu.power_default_w)));
  } else {
    rows.push_back(ok_row(kCheck, subject, value));
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
  const bool ours = std::any_of(gpu.processes.begin(), gpu.processes.end(), [](const GpuProcess& p) { return p.ours; });
  std::vector<std::uint64_t> used;
  for (const GpuFacts& other : host.gpus) {
    if (other.memory_used) used.push_back(*other.memory_used);
  }
  std::sort(used.begin(), used.end());
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

}  // namespace

void judge_gpu_state(const HostGpus& host, const GpuFacts& gpu, Rows& rows) {
  const std::string subject = gpu_subject(gpu);
  judge_clocks(gpu, subject, rows);
  judge_heat("gpu.temperature", subject, gpu.temperature_c, gpu.slowdown_c, rows);
  judge_heat("gpu.memory_temperature", subject, gpu.memory_temperature_c, gpu.memory_max_c, rows);
  judge_power(gpu, subject, rows);
  judge_modes(gpu, subject, rows);
  judge_users(host, gpu, subject, rows);
}

}  // namespace busbar
