// What NCCL asks of NVML and the suite does not. FAKE_NVLINKS=N: every GPU has N links, to NVSwitches.

#include "fakes/fake_nvml.h"
#include "fakes/gpu_bus_ids.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using busbar::NvmlDevice;
using busbar::NvmlResult;
using namespace busbar::nvml;

constexpr NvmlResult kInvalidArgument = 2, kNotFound = 6;

unsigned number(const char* variable, unsigned otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : otherwise;
}

bool has_link(unsigned link) { return link < number("FAKE_NVLINKS", 0); }

}  // namespace

void fake_nvml::give_link_field(FieldValue& field) {
  constexpr unsigned kLinkState = 165;  // NVML_FI_DEV_NVLINK_GET_STATE
  field.result = field.field == kLinkState && has_link(field.scope) ? kSuccess : kNotSupported;
  field.value_type = 1;
  field.value.as_unsigned = 1;
}

extern "C" {

NvmlResult nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* device);

NvmlResult nvmlDeviceGetHandleByIndex(unsigned index, NvmlDevice* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}
NvmlResult nvmlDeviceGetHandleByPciBusId(const char* text, NvmlDevice* device) {
  unsigned domain = 0, bus = 0;
  if (std::sscanf(text, "%x:%x", &domain, &bus) != 2) return kInvalidArgument;
  for (unsigned i = 0; i < number("FAKE_GPUS", 2); ++i) {
    if (static_cast<int>(bus) == fake_gpu::bus_number(static_cast<int>(i))) {
      return nvmlDeviceGetHandleByIndex_v2(i, device);
    }
  }
  return kNotFound;
}
NvmlResult nvmlDeviceGetIndex(NvmlDevice device, unsigned* index) {
  *index = static_cast<unsigned>(fake_nvml::index_of(device));
  return kSuccess;
}
NvmlResult nvmlDeviceGetCudaComputeCapability(NvmlDevice, int* major, int* minor) {
  const unsigned capability = number("FAKE_CAPABILITY", 90);
  *major = static_cast<int>(capability / 10);
  *minor = static_cast<int>(capability % 10);
  return kSuccess;
}
NvmlResult nvmlDeviceGetNvLinkCapability(NvmlDevice, unsigned link, int, unsigned* can) {
  *can = has_link(link) ? 1 : 0;
  return kSuccess;
}
NvmlResult nvmlDeviceGetNvLinkRemotePciInfo(NvmlDevice, unsigned, PciInfo* pci) {
  *pci = {};
  for (char* id : {pci->legacy, pci->bus_id}) std::strcpy(id, "fffffff:ffff:ff");  // NCCL to 2.29 reads the legacy one
  return kSuccess;
}
NvmlResult nvmlDeviceGetNvLinkRemoteDeviceType(NvmlDevice, unsigned, int* type) {
  *type = 2;  // NVML_NVLINK_DEVICE_TYPE_SWITCH
  return kSuccess;
}
NvmlResult nvmlSystemGetConfComputeSettings(void*) { return kNotSupported; }
}
