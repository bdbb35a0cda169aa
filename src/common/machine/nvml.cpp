#include "common/machine/nvml.h"

#include "common/base/text.h"

namespace busbar::nvml {
namespace {

/// Whether what every NVML has is there.
bool find_calls(const SharedLibrary& library, Calls& calls) {
  (void)find_in(library, "nvmlSystemGetDriverVersion", calls.driver_version);
  (void)find_in(library, "nvmlDeviceGetPciInfo_v3", calls.pci);
  (void)find_in(library, "nvmlDeviceGetName", calls.name);
  (void)find_in(library, "nvmlDeviceGetUUID", calls.uuid);
  (void)find_in(library, "nvmlDeviceGetVbiosVersion", calls.vbios);
  (void)find_in(library, "nvmlDeviceGetMemoryInfo", calls.memory);
  (void)find_in(library, "nvmlDeviceGetEccMode", calls.ecc_mode);
  (void)find_in(library, "nvmlDeviceGetTotalEccErrors", calls.ecc_total);
  (void)find_in(library, "nvmlDeviceGetMemoryErrorCounter", calls.ecc_at);
  (void)find_in(library, "nvmlDeviceGetRemappedRows", calls.remapped);
  (void)find_in(library, "nvmlDeviceGetRetiredPages", calls.retired);
  (void)find_in(library, "nvmlDeviceGetRetiredPagesPendingStatus", calls.retirement_pending);
  (void)find_in(library, "nvmlDeviceGetNvLinkState", calls.nvlink_state);
  (void)find_in(library, "nvmlDeviceGetNvLinkErrorCounter", calls.nvlink_errors);
  (void)find_in(library, "nvmlDeviceGetFieldValues", calls.fields);
  (void)find_in(library, "nvmlDeviceGetP2PStatus", calls.p2p);
  (void)find_in(library, "nvmlDeviceGetGpuFabricInfoV", calls.fabric);
  (void)find_in(library, "nvmlDeviceGetCurrentClocksThrottleReasons", calls.clock_reasons);
  (void)find_in(library, "nvmlDeviceGetTemperature", calls.temperature);
  (void)find_in(library, "nvmlDeviceGetTemperatureThreshold", calls.temperature_threshold);
  (void)find_in(library, "nvmlDeviceGetPowerUsage", calls.power);
  (void)find_in(library, "nvmlDeviceGetEnforcedPowerLimit", calls.power_limit);
  (void)find_in(library, "nvmlDeviceGetPowerManagementDefaultLimit", calls.power_default);
  (void)find_in(library, "nvmlDeviceGetCurrPcieLinkGeneration", calls.pcie_generation);
  (void)find_in(library, "nvmlDeviceGetMaxPcieLinkGeneration", calls.pcie_generation_max);
  (void)find_in(library, "nvmlDeviceGetCurrPcieLinkWidth", calls.pcie_width);
  (void)find_in(library, "nvmlDeviceGetMaxPcieLinkWidth", calls.pcie_width_max);
  (void)find_in(library, "nvmlDeviceGetPcieReplayCounter", calls.pcie_replays);
  (void)find_in(library, "nvmlDeviceGetUtilizationRates", calls.utilization);
  (void)find_in(library, "nvmlDeviceGetPersistenceMode", calls.persistence);
  (void)find_in(library, "nvmlDeviceGetComputeMode", calls.compute_mode);
  (void)find_in(library, "nvmlDeviceGetMigMode", calls.mig);
  (void)find_in(library, "nvmlDeviceGetComputeRunningProcesses_v3", calls.processes);
  (void)find_in(library, "nvmlEventSetCreate", calls.event_set_create);
  (void)find_in(library, "nvmlEventSetFree", calls.event_set_free);
  (void)find_in(library, "nvmlDeviceRegisterEvents", calls.register_events);
  (void)find_in(library, "nvmlEventSetWait_v2", calls.wait_event);
  // Its newer name, of the same signature.
  if (calls.clock_reasons == nullptr) {
    (void)find_in(library, "nvmlDeviceGetCurrentClocksEventReasons", calls.clock_reasons);
  }
  return find_in(library, "nvmlInit_v2", calls.init) && find_in(library, "nvmlShutdown", calls.shutdown) &&
         find_in(library, "nvmlErrorString", calls.error_string) &&
         find_in(library, "nvmlDeviceGetCount_v2", calls.count) &&
         find_in(library, "nvmlDeviceGetHandleByIndex_v2", calls.handle);
}

}  // namespace

Driver::Driver(const std::string& library_name) : library(open_library(library_name)) {
  complete = library != nullptr && find_calls(library, calls);
  if (!complete) return;
  const NvmlResult result = calls.init();
  open = result == kSuccess;
  if (!open) refusal = calls.error_string(result);
}

Driver::~Driver() {
  if (open) (void)calls.shutdown();
}

std::vector<NvmlDevice> Driver::devices(std::string& problem) const {
  unsigned count = 0;
  if (const NvmlResult result = calls.count(&count); result != kSuccess) problem = calls.error_string(result);
  std::vector<NvmlDevice> found(count, nullptr);
  for (unsigned index = 0; index < count; ++index) {
    if (calls.handle(index, &found[index]) != kSuccess) found[index] = nullptr;
  }
  return found;
}

std::string plain_bus_id(std::string id) {
  // NVML writes eight digits of the domain, sysfs and the kernel's log four, and small letters.
  if (id.size() == 16) id.erase(0, 4);
  return lower_case(id);
}

std::string bus_id_of(const Calls& calls, NvmlDevice device) {
  PciInfo pci{};
  if (calls.pci == nullptr || calls.pci(device, &pci) != kSuccess) return {};
  return plain_bus_id(pci.bus_id);
}

}  // namespace busbar::nvml
