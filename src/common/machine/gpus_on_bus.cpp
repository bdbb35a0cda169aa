#include "common/machine/gpus_on_bus.h"

#include "common/machine/cgroup.h"

#include <algorithm>

namespace busbar {

std::vector<std::string> gpus_on_bus(const std::filesystem::path& root) {
  namespace fs = std::filesystem;
  std::vector<std::string> addresses;
  std::error_code ignored;
  for (const fs::directory_entry& device : fs::directory_iterator(root / "sys/bus/pci/devices", ignored)) {
    const std::string vendor = read_trimmed(device.path() / "vendor").value_or("");
    const std::string pci_class = read_trimmed(device.path() / "class").value_or("");
    // VGA controllers (0300) and 3D controllers (0302); NVIDIA's bridges, switches and audio are other classes.
    const bool gpu = pci_class.starts_with("0x0300") || pci_class.starts_with("0x0302");
    if (vendor == "0x10de" && gpu) addresses.push_back(device.path().filename());
  }
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

}  // namespace busbar
