// Would catch: a host whose GPU driver is dead taken for one without GPUs, or a GPU's bridge or sound device counted.

#include "common/machine/machine_facts.h"
#include "fake_root.h"

#include <catch2/catch.hpp>

using namespace busbar;

namespace {

void add_device(FakeRoot& root, const std::string& address, const std::string& vendor, const std::string& pci_class) {
  root.file("sys/bus/pci/devices/" + address + "/vendor", vendor + "\n");
  root.file("sys/bus/pci/devices/" + address + "/class", pci_class + "\n");
}

}  // namespace

TEST_CASE("GPUs are known by vendor and class, and come in the bus's order", "[gpus_on_bus][cluster]") {
  FakeRoot root;
  add_device(root, "0000:9a:00.0", "0x10de", "0x030200");  // 3D controller: a data-centre GPU
  add_device(root, "0000:18:00.0", "0x10de", "0x030000");  // VGA controller: a workstation GPU
  add_device(root, "0000:18:00.1", "0x10de", "0x040300");  // its sound
  add_device(root, "0000:05:00.0", "0x10de", "0x068000");  // an NVSwitch
  add_device(root, "0000:03:00.0", "0x1a03", "0x030000");  // the service processor's display
  add_device(root, "0000:19:00.0", "0x15b3", "0x020700");  // a network adapter
  CHECK(gpus_on_bus(root.path()) == std::vector<std::string>{"0000:18:00.0", "0000:9a:00.0"});
}

TEST_CASE("Where the bus is not visible there are no GPUs", "[gpus_on_bus][cluster]") {
  const FakeRoot root;
  CHECK(gpus_on_bus(root.path()).empty());
}
