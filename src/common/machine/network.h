#pragma once

#include "common/machine/probe.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A port of an RDMA device, as in sysfs.
struct RdmaPort {
  std::string device;  ///< "mlx5_3"
  int port = 1;
  std::string name;        ///< "mlx5_3", with "/2" after it only if the device has several
  std::string driver;      ///< "mlx5_core", "efa"
  std::string model;       ///< board or card: ports of one model have one rate
  std::string path;        ///< of the port's folder
  std::string state;       ///< "4: ACTIVE"
  std::string phys_state;  ///< "5: LinkUp"
  std::string rate;        ///< "400 Gb/sec (4X NDR)"
  std::string link_layer;  ///< "InfiniBand", "Ethernet"; EFA says "Unspecified"
  std::string slot;        ///< "0000:18:00" from the PCI address; empty: not on the bus
  std::vector<std::string> interfaces;

  bool active() const { return state.find("ACTIVE") != std::string::npos; }
  bool efa() const { return driver == "efa"; }
  bool roce() const { return link_layer == "Ethernet"; }
  double gbit_per_s() const;
};

/// All ports, by device (mlx5_2 before mlx5_10) and port.
std::vector<RdmaPort> rdma_ports(const Probe& probe);

/// Only device, port and path of each, ordered by name; asks no driver.
std::vector<RdmaPort> list_rdma_ports(const Probe& probe);

/// The MTU that each port of RDMA devices agreed on with its neighbor, which sysfs does not show, and its largest
/// possible one, as notes of a probe: "ib.active_mtu.mlx5_3/1" and "ib.max_mtu.mlx5_3/1" [bytes]. Asks libibverbs,
/// loaded and not linked, for every device that this user may open; empty if it is not installed. Never throws; may
/// take long if a driver is sick.
std::map<std::string, std::string> ask_active_mtus(const std::string& library = "libibverbs.so.1");

/// A network interface of this process's network namespace.
struct NetInterface {
  std::string name;
  std::string path;            ///< in sysfs; empty if /sys shows another namespace's
  std::uint64_t rx_bytes = 0;  ///< so far
  std::uint64_t tx_bytes = 0;
  bool of_no_use = false;  ///< lo, containers, virtual machines, VPNs, Wi-Fi: no link between nodes of a cluster
  bool routed = false;     ///< has a route to a network
};

/// All interfaces, eth2 before eth10. From /proc/net/dev, which, unlike a /sys mounted elsewhere, always shows the
/// reader's namespace.
std::vector<NetInterface> net_interfaces(const Probe& probe);

/// Bytes in and out of the host's interfaces and InfiniBand ports so far, without loopback.
std::uint64_t network_bytes(const Probe& probe = {});

/// Whether an NCCL list contains a name: "mlx5_0,mlx5_1:1" are prefixes, "=mlx5_0" whole names, "^docker" all but
/// prefixes, "^=mlx5_2" all but whole names (NCCL, src/misc/utils.cc). A port after a colon does not count.
bool list_takes(std::string_view list, std::string_view name);

/// Whether an interface is named like a bridge, or an end of one, for containers and virtual machines: every host has
/// its own with the same address.
bool is_for_containers(std::string_view name);

/// Whether an interface is named like one that never leads to another host: loopback, containers, tunnels, Wi-Fi.
bool leads_nowhere(std::string_view name);

}  // namespace busbar
