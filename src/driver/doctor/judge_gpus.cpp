#include "driver/doctor/judge_gpus.h"

#include "driver/doctor/make_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>

namespace busbar {
namespace {

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

}  // namespace

std::string gpu_subject(const GpuFacts& gpu) {
  return gpu.bus_id.empty() ? fmt::format("GPU {}", gpu.index) : fmt::format("GPU {} {}", gpu.index, gpu.bus_id);
}

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
    const bool dead = host.on_bus > 0 || host.problem.find("does not answer") != std::string::npos;
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

}  // namespace busbar
