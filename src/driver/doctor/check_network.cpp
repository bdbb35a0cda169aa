#include "common/machine/machine_facts.h"
#include "driver/doctor/make_row.h"
#include "driver/doctor/network_parts.h"

namespace busbar {

void check_network(const Probe& probe, Rows& rows) {
  const std::vector<RdmaPort> ports = rdma_ports(probe);
  const std::vector<NetCard> cards = net_cards(probe);
  if (ports.empty()) {
    rows.push_back(skip_row("rdma", "", "no InfiniBand, RoCE or EFA device in /sys/class/infiniband"));
  } else {
    check_rdma_ports(probe, ports, rows);
    check_rdma_tables(probe, ports, rows);
  }
  check_interfaces(probe, cards, rows);
  check_sockets(probe, rows);
}

}  // namespace busbar
