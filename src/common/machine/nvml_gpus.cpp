#include "common/machine/nvml_gpus.h"

#include "common/machine/nvml_library.h"

#include <array>

namespace busbar {
namespace {

using Device = void*;
using Result = NvmlResult;

// nvml.h: nvmlReturn_t.
constexpr Result kGpuIsLost = 15;
constexpr Result kResetRequired = 16;

struct PciInfo {  // nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

struct Utilization {
  unsigned gpu, memory;
};

/// Old drivers lack some of the functions: what is null is not asked.
struct HealthCalls {
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  const char* (*error_string)(Result) = nullptr;
  Result (*count)(unsigned*) = nullptr;
  Result (*handle)(unsigned, Device*) = nullptr;
  Result (*pci)(Device, PciInfo*) = nullptr;
  Result (*power)(Device, unsigned* mw) = nullptr;
  Result (*power_limit)(Device, unsigned* mw) = nullptr;
  Result (*temperature)(Device, int sensor, unsigned* celsius) = nullptr;
  Result (*utilization)(Device, Utilization*) = nullptr;
  Result (*slowdown)(Device, unsigned long long*) = nullptr;
  Result (*ecc)(Device, int type, int counter, unsigned long long*) = nullptr;
  Result (*remapped)(Device, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed) = nullptr;
  Result (*nvlink)(Device, unsigned link, int* active) = nullptr;
};

bool find_calls(const NvmlLibrary& library, HealthCalls& calls) {
  (void)find_in(library, "nvmlDeviceGetPciInfo_v3", calls.pci);
  (void)find_in(library, "nvmlDeviceGetPowerUsage", calls.power);
  (void)find_in(library, "nvmlDeviceGetEnforcedPowerLimit", calls.power_limit);
  (void)find_in(library, "nvmlDeviceGetTemperature", calls.temperature);
  (void)find_in(library, "nvmlDeviceGetUtilizationRates", calls.utilization);
  (void)find_in(library, "nvmlDeviceGetCurrentClocksThrottleReasons", calls.slowdown);
  (void)find_in(library, "nvmlDeviceGetTotalEccErrors", calls.ecc);
  (void)find_in(library, "nvmlDeviceGetRemappedRows", calls.remapped);
  (void)find_in(library, "nvmlDeviceGetNvLinkState", calls.nvlink);
  return find_in(library, "nvmlInit_v2", calls.init) && find_in(library, "nvmlShutdown", calls.shutdown) &&
         find_in(library, "nvmlErrorString", calls.error_string) &&
         find_in(library, "nvmlDeviceGetCount_v2", calls.count) &&
         find_in(library, "nvmlDeviceGetHandleByIndex_v2", calls.handle);
}

void ask_power(const HealthCalls& calls, Device device, GpuHealth& gpu) {
  unsigned value = 0;
  if (calls.power != nullptr && calls.power(device, &value) == 0) gpu.power_w = value / 1e3;
  if (calls.power_limit != nullptr && calls.power_limit(device, &value) == 0) gpu.power_limit_w = value / 1e3;
  constexpr int kOfTheGpu = 0;
  if (calls.temperature != nullptr && calls.temperature(device, kOfTheGpu, &value) == 0) {
    gpu.temperature_c = static_cast<int>(value);
  }
  Utilization busy{};
  if (calls.utilization != nullptr && calls.utilization(device, &busy) == 0) {
    gpu.busy_percent = static_cast<int>(busy.gpu);
  }
  unsigned long long reasons = 0;
  if (calls.slowdown != nullptr && calls.slowdown(device, &reasons) == 0) gpu.slowed_by = slowdown_words(reasons);
}

void ask_errors(const HealthCalls& calls, Device device, GpuHealth& gpu) {
  constexpr int kUncorrected = 1, kSinceDriver = 0;
  unsigned long long errors = 0;
  if (calls.ecc != nullptr && calls.ecc(device, kUncorrected, kSinceDriver, &errors) == 0) {
    gpu.ecc_uncorrected = static_cast<std::int64_t>(errors);
  }
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (calls.remapped != nullptr && calls.remapped(device, &corrected, &uncorrected, &pending, &failed) == 0) {
    gpu.remap_failed = failed != 0;
  }
  constexpr unsigned kMostLinks = 18;  // NVML_NVLINK_MAX_LINKS
  for (unsigned link = 0; calls.nvlink != nullptr && link < kMostLinks; ++link) {
    int active = 0;
    if (calls.nvlink(device, link, &active) != 0) continue;
    ++(active != 0 ? gpu.nvlinks_up : gpu.nvlinks_down);
  }
}

GpuHealth ask_one(const HealthCalls& calls, unsigned index) {
  GpuHealth gpu;
  gpu.index = static_cast<int>(index);
  Device device = nullptr;
  Result result = calls.handle(index, &device);
  PciInfo pci{};
  if (result == 0 && calls.pci != nullptr && calls.pci(device, &pci) == 0) gpu.bus_id = pci.bus_id;
  // The first real question to the device.
  unsigned ignored = 0;
  if (result == 0 && calls.temperature != nullptr) result = calls.temperature(device, 0, &ignored);
  gpu.lost = result == kGpuIsLost;
  gpu.needs_reset = result == kResetRequired;
  if (result == 0) {
    ask_power(calls, device, gpu);
    ask_errors(calls, device, gpu);
  }
  return gpu;
}

}  // namespace

std::vector<std::string> slowdown_words(std::uint64_t reasons) {
  struct Reason {
    std::uint64_t bit;  // nvmlClocksEventReason...
    const char* words;
  };
  // 0x08, hardware slowdown, stands for the two behind it on old GPUs.
  constexpr std::array kReasons = {Reason{0x20, "heat (driver)"}, Reason{0x40, "heat (hardware)"},
                                   Reason{0x80, "power brake"}};
  std::vector<std::string> words;
  for (const Reason& reason : kReasons) {
    if ((reasons & reason.bit) != 0) words.emplace_back(reason.words);
  }
  if (words.empty() && (reasons & 0x08) != 0) words.emplace_back("hardware (heat or power)");
  return words;
}

GpusHealth ask_gpu_health(const std::string& library_name) {
  GpusHealth health;
  const NvmlLibrary library = open_nvml(library_name);
  HealthCalls calls;
  if (library == nullptr || !find_calls(library, calls)) return health;
  if (const Result result = calls.init(); result != 0) {
    health.problem = calls.error_string(result);
    return health;
  }
  unsigned count = 0;
  if (const Result result = calls.count(&count); result != 0) health.problem = calls.error_string(result);
  for (unsigned index = 0; index < count; ++index) health.gpus.push_back(ask_one(calls, index));
  (void)calls.shutdown();
  return health;
}

}  // namespace busbar
