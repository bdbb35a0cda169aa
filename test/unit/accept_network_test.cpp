// Would catch: figures of one network that are held against another, and those of GB200 racks and of A3 Mega that are
// never used because nobody sees that the hosts are such.

#include "doctor_fixture.h"
#include "driver/accept/platform.h"

#include <catch2/catch.hpp>

using namespace busbar;

namespace {

std::string network(const std::string& machine, const std::string& more = "",
                    const std::vector<std::string>& domains = {}) {
  return network_of(probe_recorded(recorded_text(machine) + more, machine), domains);
}

const std::string kNoIndex(32, '0');
const std::string kRack = "5c3d0b1f0e9a4d2c8b7a695847362514";

/// Four GPUs that the fabric manager has registered with this cluster.
HostGpus joined(const std::string& cluster, unsigned clique = 1) {
  HostGpus host;
  host.gpus.resize(4);
  for (GpuFacts& gpu : host.gpus) {
    gpu.fabric = GpuFabric{.state = 3, .status = 0, .clique = clique, .cluster = cluster, .health = 0};
  }
  return host;
}

}  // namespace

TEST_CASE("sysfs tells InfiniBand, RoCE and EFA", "[accept][network]") {
  CHECK(network("dgx_h100") == "ib");  // its two Ethernet ports come last
  CHECK(network("roce_a100") == "roce");
  CHECK(network("efa_p4d") == "efa");
  CHECK(network("container") == "ethernet");
}

TEST_CASE("TCPXO is told by its plugin's settings", "[accept][network]") {
  CHECK(network("container", "env NCCL_FASTRAK_IFNAME=eth1,eth2\n") == "tcpxo");
  CHECK(network("container", "env NCCL_FASTRAK_CTRL_DEV=eth0\n") == "tcpxo");
  CHECK(network("container", "env NCCL_NET=FasTrak\n") == "tcpxo");
  // Its predecessor has other figures, and who asks for sockets gets them.
  CHECK(network("container", "env NCCL_GPUDIRECTTCPX_CTRL_DEV=eth0\nenv NCCL_NET=GPUDirectTCPX_v7\n") == "ethernet");
  CHECK(network("container", "env NCCL_FASTRAK_IFNAME=eth1\nenv NCCL_NET=Socket\n") == "ethernet");
  CHECK(network("container", "file /etc/nccl.conf NCCL_FASTRAK_IFNAME=eth1\n") == "tcpxo");
}

TEST_CASE("NVLink between hosts is one where all are in one clique", "[accept][network]") {
  const std::string rack = nvlink_domain(joined(kRack));
  CHECK(rack == kRack + "/1");
  CHECK(network("dgx_h100", "", {rack, rack, rack}) == "mnnvl");
  CHECK(network("dgx_h100", "", {rack, rack, nvlink_domain(joined(kRack, 2))}) == "ib");
  CHECK(network("dgx_h100", "", {rack, ""}) == "ib");
  CHECK(network("dgx_h100", "", {"", ""}) == "ib");
  CHECK(network("dgx_h100", "", {rack}) == "ib");  // no other host in it
  CHECK(network("dgx_h100", "env NCCL_MNNVL_ENABLE=0\n", {rack, rack}) == "ib");
}

TEST_CASE("a host's own NVSwitch joins it with nobody", "[accept][network]") {
  CHECK(nvlink_domain(joined(kNoIndex)).empty());
  CHECK(nvlink_domain({}).empty());
  HostGpus host = joined(kRack);
  host.gpus[2].fabric->state = 2;
  CHECK(nvlink_domain(host).empty());
  host = joined(kRack);
  host.gpus[2].fabric->clique = 7;
  CHECK(nvlink_domain(host).empty());
  host = joined(kRack);
  host.gpus[2].fabric.reset();
  CHECK(nvlink_domain(host).empty());
}
