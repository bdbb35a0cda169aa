#include "common/machine/nvml.h"

#include "common/base/text.h"

namespace busbar::nvml {
Driver::Driver(const std::string& library_name) : library(open_library(library_name)), calls{library.get()} {
  // Its newer name, with the same signature.
  if (!calls.clock_reasons) calls.clock_reasons = {library.get(), "nvmlDeviceGetCurrentClocksEventReasons"};
  complete = calls.init && calls.shutdown && calls.error_string != nullptr && calls.count && calls.handle;
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
  for (unsigned index = 0; index < count; ++index)
    if (calls.handle(index, &found[index]) != kSuccess) found[index] = nullptr;
  return found;
}

std::string plain_bus_id(std::string id) {
  // NVML writes eight digits of the domain; sysfs and the kernel's log write four, in lower case.
  if (id.size() == 16) id.erase(0, 4);
  return lower_case(id);
}

std::string bus_id_of(const Calls& calls, NvmlDevice device) {
  PciInfo pci{};
  if (calls.pci(device, &pci) != kSuccess) return {};
  return plain_bus_id(pci.bus_id);
}

}  // namespace busbar::nvml
