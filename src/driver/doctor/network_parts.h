#pragma once

#include "common/machine/probe.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A port of an RDMA device, as sysfs tells it.
struct RdmaPort {
  std::string device;  ///< "mlx5_3"
  int port = 1;
  std::string name;        ///< "mlx5_3", with "/2" behind it only where the device has several
  std::string driver;      ///< "mlx5_core", "efa"
  std::string model;       ///< board or card: ports of one model have one rate
  std::string path;        ///< of the port's folder
  std::string state;       ///< "4: ACTIVE"
  std::string phys_state;  ///< "5: LinkUp"
  std::string rate;        ///< "400 Gb/sec (4X NDR)"
  std::string link_layer;  ///< "InfiniBand", "Ethernet"; EFA says "Unspecified"
  std::string slot;        ///< "0000:18:00" of the PCI address; empty: not on the bus
  std::vector<std::string> interfaces;

  bool active() const { return state.find("ACTIVE") != std::string::npos; }
  bool efa() const { return driver == "efa"; }
  bool roce() const { return link_layer == "Ethernet"; }
  double gbit_per_s() const;
};

/// All of them, by device (mlx5_2 before mlx5_10) and port.
std::vector<RdmaPort> rdma_ports(const Probe& probe);

/// A network interface of this process's network namespace.
struct NetCard {
  std::string name;
  std::string path;        ///< in sysfs; empty where /sys shows another namespace's
  bool loopback = false;   ///< lo
  bool of_no_use = false;  ///< of containers, virtual machines, VPNs, Wi-Fi: no link between nodes of a cluster
  bool routed = false;     ///< has an address with a network behind it
};

std::vector<NetCard> net_cards(const Probe& probe);

/// Whether an interface has the name of one that never leads to another host: loopback, of containers, tunnels, Wi-Fi.
bool leads_nowhere(std::string_view name);

}  // namespace busbar
