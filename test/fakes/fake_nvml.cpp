// A stand-in for NVIDIA's libnvidia-ml.so.1, so that the way from dlopen to doctor's rows is tested where there is no
// driver. Two GPUs of an H100 board, FAKE_GPUS of them where that is set; with BUSBAR_FAKE_NVML=sick the second one has
// what can be wrong, with =lost it is gone, with =dead the library refuses to start, with =xid the second one reports
// errors while somebody listens.

#include "fakes/fake_nvml.h"

#include "fakes/gpu_bus_ids.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

using busbar::NvmlDevice;
using busbar::NvmlResult;
using namespace busbar::nvml;

std::string_view mode() {
  const char* text = std::getenv("BUSBAR_FAKE_NVML");
  return text == nullptr ? "" : text;
}

using fake_nvml::index_of;
/// XIDs that the second GPU still has to report.
std::vector<unsigned long long> waiting;

bool sick(NvmlDevice device) { return index_of(device) == 1 && mode() == "sick"; }

template <class T>
NvmlResult give(T* target, T value) {
  *target = value;
  return kSuccess;
}

NvmlResult give_text(char* target, unsigned length, const char* text) {
  std::snprintf(target, length, "%s", text);
  return kSuccess;
}

}  // namespace

bool fake_nvml::serves_nccl() { return std::getenv("FAKE_GPUS") != nullptr; }

extern "C" {

NvmlResult nvmlInit_v2() { return mode() == "dead" ? 9 : kSuccess; }
NvmlResult nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(NvmlResult result) { return result == 9 ? "Driver Not Loaded" : "Unknown Error"; }
NvmlResult nvmlSystemGetDriverVersion(char* text, unsigned length) { return give_text(text, length, "580.82.07"); }
NvmlResult nvmlDeviceGetCount_v2(unsigned* count) {
  return give(count, fake_nvml::serves_nccl() ? static_cast<unsigned>(std::atoi(std::getenv("FAKE_GPUS"))) : 2U);
}
NvmlResult nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* device) {
  return give(device, reinterpret_cast<NvmlDevice>(static_cast<std::size_t>(index) + 1));
}
NvmlResult nvmlDeviceGetPciInfo_v3(NvmlDevice device, PciInfo* pci) {
  *pci = {};
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", fake_gpu::bus_number(index_of(device)));
  return kSuccess;
}
NvmlResult nvmlDeviceGetName(NvmlDevice, char* text, unsigned length) {
  return give_text(text, length, "NVIDIA H100 80GB HBM3");
}
NvmlResult nvmlDeviceGetUUID(NvmlDevice device, char* text, unsigned length) {
  return give_text(text, length, index_of(device) == 0 ? "GPU-0" : "GPU-1");
}
NvmlResult nvmlDeviceGetVbiosVersion(NvmlDevice, char* text, unsigned length) {
  return give_text(text, length, "96.00.89.00.01");
}
NvmlResult nvmlDeviceGetMemoryInfo(NvmlDevice, Memory* memory) {
  return give(memory, Memory{85520809984ULL, 84930000000ULL, 590809984ULL});
}
NvmlResult nvmlDeviceGetEccMode(NvmlDevice, int* current, int* pending) {
  *pending = 1;
  return give(current, 1);
}
NvmlResult nvmlDeviceGetTotalEccErrors(NvmlDevice device, int type, int counter, unsigned long long* errors) {
  return give(errors, type == kUncorrected && counter == kVolatile && sick(device) ? 2ULL : 0ULL);
}
NvmlResult nvmlDeviceGetMemoryErrorCounter(NvmlDevice, int, int, int, unsigned long long* errors) {
  return give(errors, 0ULL);
}
NvmlResult nvmlDeviceGetRemappedRows(NvmlDevice device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                                     unsigned* failed) {
  *corrected = *failed = 0;
  *pending = sick(device) ? 1 : 0;
  return give(uncorrected, sick(device) ? 1U : 0U);
}
NvmlResult nvmlDeviceGetRetiredPages(NvmlDevice, int, unsigned*, unsigned long long*) { return kNotSupported; }
NvmlResult nvmlDeviceGetNvLinkState(NvmlDevice device, unsigned link, int* active) {
  return give(active, sick(device) && link == 3 ? 0 : 1);
}
NvmlResult nvmlDeviceGetNvLinkErrorCounter(NvmlDevice device, unsigned link, int counter, unsigned long long* errors) {
  return give(errors, index_of(device) == 1 && link == 0 && counter == kReplays ? 7ULL : 0ULL);
}
NvmlResult nvmlDeviceGetFieldValues(NvmlDevice, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    FieldValue& field = values[i];
    if (fake_nvml::serves_nccl()) {
      fake_nvml::give_link_field(field);
      continue;
    }
    field.result =
        field.field == kFieldCommonLinkSpeed || field.field == kFieldMemoryTemperature ? kSuccess : kNotSupported;
    field.value_type = 1;
    field.value.as_unsigned = field.field == kFieldCommonLinkSpeed ? 26562 : 45;
  }
  return kSuccess;
}
NvmlResult nvmlDeviceGetP2PStatus(NvmlDevice, NvmlDevice, int, int* status) { return give(status, 0); }
NvmlResult nvmlDeviceGetGpuFabricInfoV(NvmlDevice, FabricInfo* info) {
  if (fake_nvml::serves_nccl()) return kNotSupported;
  if (info->version != kFabricVersion2) return 25;  // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
  std::memset(info->cluster, 0xab, sizeof info->cluster);
  info->status = 0;
  info->clique = 5;
  info->state = 3;
  info->health = 2;
  return kSuccess;
}
NvmlResult nvmlDeviceGetCurrentClocksThrottleReasons(NvmlDevice device, unsigned long long* reasons) {
  return give(reasons, sick(device) ? 0x40ULL : 1ULL);
}
NvmlResult nvmlDeviceGetTemperature(NvmlDevice device, int, unsigned* celsius) {
  if (index_of(device) == 1 && mode() == "lost") return kGpuIsLost;
  return give(celsius, 33U);
}
NvmlResult nvmlDeviceGetTemperatureThreshold(NvmlDevice, int threshold, unsigned* celsius) {
  return give(celsius, threshold == kSlowdown ? 87U : 95U);
}
NvmlResult nvmlDeviceGetEnforcedPowerLimit(NvmlDevice device, unsigned* mw) {
  return give(mw, sick(device) ? 500000U : 700000U);
}
NvmlResult nvmlDeviceGetPowerManagementDefaultLimit(NvmlDevice, unsigned* mw) { return give(mw, 700000U); }
NvmlResult nvmlDeviceGetCurrPcieLinkGeneration(NvmlDevice, unsigned* generation) { return give(generation, 5U); }
NvmlResult nvmlDeviceGetMaxPcieLinkGeneration(NvmlDevice, unsigned* generation) { return give(generation, 5U); }
NvmlResult nvmlDeviceGetCurrPcieLinkWidth(NvmlDevice device, unsigned* width) {
  return give(width, sick(device) ? 8U : 16U);
}
NvmlResult nvmlDeviceGetMaxPcieLinkWidth(NvmlDevice, unsigned* width) { return give(width, 16U); }
NvmlResult nvmlDeviceGetPcieReplayCounter(NvmlDevice, unsigned* replays) { return give(replays, 3U); }
NvmlResult nvmlDeviceGetPersistenceMode(NvmlDevice, int* on) { return give(on, 1); }
NvmlResult nvmlDeviceGetComputeMode(NvmlDevice, int* computing) { return give(computing, 0); }
NvmlResult nvmlDeviceGetMigMode(NvmlDevice, unsigned* current, unsigned* pending) {
  *pending = 0;
  return give(current, 0U);
}
NvmlResult nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice device, unsigned* count, ProcessInfo* processes) {
  *count = sick(device) ? 1 : 0;
  if (sick(device)) processes[0] = {1, 2000000000ULL, ~0U, ~0U};
  return kSuccess;
}
// CUDA's driver in the same file: the second GPU only, as CUDA_VISIBLE_DEVICES might leave it.
int cuInit(unsigned) { return mode() == "dead" ? 100 : 0; }
int cuDeviceGetCount(int* count) { return give(count, 1); }
int cuDeviceGet(int* device, int index) { return give(device, index); }
int cuDeviceGetPCIBusId(char* text, int length, int) {
  return give_text(text, static_cast<unsigned>(length), "0000:2A:00.0");
}
int cuDeviceGetAttribute(int* value, int which, int) { return give(value, which == 132 && mode() == "sick" ? 0 : 1); }

NvmlResult nvmlEventSetCreate(EventSet* set) { return give(set, static_cast<EventSet>(&waiting)); }
NvmlResult nvmlEventSetFree(EventSet set) { return set == &waiting ? kSuccess : 2; }
NvmlResult nvmlDeviceRegisterEvents(NvmlDevice device, unsigned long long types, EventSet set) {
  if (types != kEventXid || set != &waiting) return 2;  // NVML_ERROR_INVALID_ARGUMENT
  if (index_of(device) == 1 && mode() == "xid") waiting = {31, 79, 31, 43};
  return kSuccess;
}
NvmlResult nvmlEventSetWait_v2(EventSet set, EventData* event, unsigned timeout_ms) {
  if (set != &waiting || timeout_ms != 0) return 2;
  if (waiting.empty()) return kTimeout;
  *event = {reinterpret_cast<NvmlDevice>(std::size_t{2}), kEventXid, waiting.front(), ~0U, ~0U};
  waiting.erase(waiting.begin());
  return kSuccess;
}
}
