// Would catch: a GPU paired with the wrong NIC, a display chip taken for a GPU, and a crash where a container hides the
// PCI bus. The machines are topologies written by hand in hwloc's format: two sockets of two cores, one PCIe switch.

#include "common/processes/topology.h"

#include "common/base/error.h"
#include "fake_root.h"

#include <catch2/catch.hpp>
#include <sched.h>

using namespace busbar;

namespace {

constexpr const char* kTwoSockets = R"xml(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000000f" allowed_cpuset="0x0000000f" nodeset="0x00000003" complete_nodeset="0x00000003" allowed_nodeset="0x00000003" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3" local_memory="1000000"/>
      <object type="Core" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4">
        <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5"/>
      </object>
      <object type="Core" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="6">
        <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="7"/>
      </object>
      <object type="Bridge" gp_index="8" bridge_type="0-1" depth="0" bridge_pci="0000:[10-1f]">
        <object type="Bridge" gp_index="9" bridge_type="1-1" depth="1" bridge_pci="0000:[11-18]" pci_busid="0000:10:00.0" pci_type="0604 [1000:c010] [1000:a096] b0" pci_link_speed="0.000000">
          <object type="PCIDev" gp_index="10" pci_busid="0000:11:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="0.000000"/>
          <object type="PCIDev" gp_index="11" pci_busid="0000:12:00.0" pci_type="0207 [15b3:1021] [15b3:0041] 00" pci_link_speed="0.000000">
            <object type="OSDev" gp_index="12" name="ib0" osdev_type="2"/>
            <object type="OSDev" gp_index="13" name="mlx5_0" osdev_type="3"/>
          </object>
        </object>
        <object type="PCIDev" gp_index="14" pci_busid="0000:1a:00.0" pci_type="0300 [1a03:2000] [1a03:2000] 41" pci_link_speed="0.000000"/>
        <object type="PCIDev" gp_index="15" pci_busid="0000:1b:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="0.000000"/>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="16">
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="17" local_memory="1000000"/>
      <object type="Core" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="18">
        <object type="PU" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="19"/>
      </object>
      <object type="Core" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="20">
        <object type="PU" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="21"/>
      </object>
      <object type="Bridge" gp_index="22" bridge_type="0-1" depth="0" bridge_pci="0000:[80-8f]">
        <object type="PCIDev" gp_index="23" pci_busid="0000:81:00.0" pci_type="0200 [8086:1593] [8086:0000] 00" pci_link_speed="0.000000">
          <object type="OSDev" gp_index="24" name="eth0" osdev_type="2"/>
        </object>
      </object>
    </object>
  </object>
</topology>)xml";

constexpr const char* kNoDevices = R"xml(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1"
          complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
    <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"
            gp_index="2" local_memory="1000000"/>
    <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3"/>
  </object>
</topology>)xml";

std::vector<std::string> lines_of(const char* xml) {
  FakeRoot root;
  root.file("machine.xml", xml);
  return topology_lines((root.path() / "machine.xml").string());
}

/// Binds this process as `cpus` says while it lives.
class BoundTo {
 public:
  explicit BoundTo(const cpu_set_t& cpus) {
    sched_getaffinity(0, sizeof before_, &before_);
    sched_setaffinity(0, sizeof cpus, &cpus);
  }
  ~BoundTo() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

}  // namespace

TEST_CASE("Each GPU and NIC is told with its NUMA node and its nearest partner", "[topology][cluster]") {
  const std::vector<std::string> lines = lines_of(kTwoSockets);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] == "process unbound, NUMA nodes 0-1");
  CHECK(lines[1] == "GPU 0000:11:00.0, NUMA node 0, nearest NIC: mlx5_0/ib0 0000:12:00.0 (same PCIe switch)");
  CHECK(lines[2] == "GPU 0000:1b:00.0, NUMA node 0, nearest NIC: mlx5_0/ib0 0000:12:00.0 (same PCIe root)");
  CHECK(lines[3] == "NIC mlx5_0/ib0 0000:12:00.0, NUMA node 0, nearest GPU: 0000:11:00.0 (same PCIe switch)");
  CHECK(lines[4] == "NIC eth0 0000:81:00.0, NUMA node 1, nearest GPU: 0000:11:00.0, 0000:1b:00.0 (across the machine)");
}

TEST_CASE("A host that hides its PCI bus is said to, and nothing more", "[topology][cluster]") {
  const std::vector<std::string> lines = lines_of(kNoDevices);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "process unbound, NUMA node 0");
  CHECK(lines[1].find("no PCI devices are visible") == 0);
}

TEST_CASE("A topology that cannot be read is an error", "[topology][cluster]") {
  CHECK_THROWS_AS(topology_lines("/nonexistent/machine.xml"), Error);
}

TEST_CASE("A process on one of several cores names it, and an unbound one says so", "[topology][cluster]") {
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  if (CPU_COUNT(&all) < 2) return;
  int first = 0;
  while (first < CPU_SETSIZE && CPU_ISSET(first, &all) == 0) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  const BoundTo bound(one);
  const std::string text = binding_text();
  CHECK((text.find("core ") == 0 || text.find("cpu ") == 0));
  CHECK(text.find_first_of(",-") == std::string::npos);
  CHECK(topology_lines()[0].find("process " + text) == 0);
}
