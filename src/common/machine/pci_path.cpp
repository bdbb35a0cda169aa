#include "common/machine/pci_path.h"

#include <algorithm>
#include <vector>

namespace busbar {
namespace {

/// "pci0000:15", "0000:15:01.0", ...: the host bridge, what is below it, and the function itself last.
std::vector<std::string_view> steps_of(const std::string& path) {
  constexpr std::string_view kDevices = "/sys/devices/";
  std::vector<std::string_view> steps;
  std::string_view rest = path;
  if (rest.starts_with(kDevices)) rest.remove_prefix(kDevices.size());
  while (!rest.empty()) {
    steps.push_back(rest.substr(0, rest.find('/')));
    rest.remove_prefix(std::min(rest.size(), steps.back().size() + 1));
  }
  return steps;
}

}  // namespace

PciPath pci_path(const PciFunction& a, const PciFunction& b) {
  const auto one = steps_of(a.path);
  const auto two = steps_of(b.path);
  const auto common =
      static_cast<std::size_t>(std::mismatch(one.begin(), one.end(), two.begin(), two.end()).first - one.begin());
  // Only the host bridge in common is no switch.
  if (common >= 2) {
    // Below the last common bridge: a switch's port, and the function. More is another switch.
    const bool near = one.size() - common <= 2 && two.size() - common <= 2;
    return near ? PciPath::pix : PciPath::pxb;
  }
  const bool one_bridge = common == 1 && one[0] == two[0];
  return one_bridge || a.numa_node == b.numa_node ? PciPath::phb : PciPath::sys;
}

}  // namespace busbar
