#include "common/base/compress_list.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/machine/network.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

namespace busbar {
namespace {

/// "8 x MT_0000000838": fewer than on the other nodes is a card that fell off the bus. Ports without a cable are told
/// by their state, which must agree too.
void check_devices(const std::vector<RdmaPort>& ports, Rows& rows) {
  std::map<std::string, int> models;
  for (const RdmaPort& port : ports) ++models[port.model];
  std::vector<std::string> words;
  for (const auto& [model, count] : models) words.push_back(fmt::format("{} x {}", count, model));
  rows.push_back(equal_row("rdma.devices", "", fmt::format("{}", fmt::join(words, ", ")), Outcome::fail,
                           "fewer than on the others: a card that is gone (lspci, the kernel log), or another kind"));
}

/// The other functions of a card with several ports: one without a cable beside one that works is common.
bool sibling_works(const RdmaPort& port, const std::vector<RdmaPort>& ports) {
  return std::ranges::any_of(ports, [&](const RdmaPort& other) {
    return other.name != port.name && !port.slot.empty() && other.slot == port.slot && other.active();
  });
}

bool peer_works(const RdmaPort& port, const std::vector<RdmaPort>& ports) {
  return std::ranges::any_of(ports, [&](const RdmaPort& other) {
    return other.name != port.name && other.model == port.model && other.active();
  });
}

/// Amazon's driver calls every port active: the interface beside it, where there is one, knows.
DoctorRow efa_state(const Probe& probe, const RdmaPort& port) {
  constexpr const char* kCheck = "rdma.state";
  for (const std::string& name : port.interfaces) {
    const auto state = probe.read(fmt::format("/sys/class/net/{}/operstate", name));
    if (state == "up" || state == "unknown") return ok_row(kCheck, port.name, "interface up");
    if (state) {
      return bad_row(Outcome::fail, kCheck, port.name, fmt::format("interface {}", *state),
                     "the interface beside the EFA device is not up", "look at it with the cloud's own tools");
    }
  }
  return skip_row(kCheck, "", "the efa driver calls every port active, and it has no interface that would know");
}

DoctorRow state_row(const Probe& probe, const RdmaPort& port, const std::vector<RdmaPort>& ports) {
  constexpr const char* kCheck = "rdma.state";
  if (port.efa()) return efa_state(probe, port);
  DoctorRow row = equal_row(kCheck, port.name, fmt::format("{}, {}", port.state, port.phys_state), Outcome::fail,
                            "the node that differs: cable, transceiver, switch port");
  if (port.active()) return row;
  const bool linked = port.phys_state.find("LinkUp") != std::string::npos;
  const bool was_up = read_count(probe, port.path + "/counters/link_downed").value_or(0) > 0;
  if (linked) {
    mark_bad(
        row, Outcome::fail,
        port.roce() ? "the link is up but its interface is not" : "the link is up but no subnet manager made it active",
        port.roce() ? "ip link set dev INTERFACE up"
                    : "is the subnet manager (opensm, UFM) running? ibstat shows SM lid 0");
  } else if (was_up) {
    mark_bad(row, Outcome::fail, "the port is down, and was up since its driver was loaded",
             "cable, transceiver or switch port: swap them with a neighbour's and see what the fault follows");
  } else if (peer_works(port, ports) && !sibling_works(port, ports)) {
    mark_bad(row, Outcome::fail, "the port is down, others of its kind are up",
             "cable, transceiver or switch port: swap them with a neighbour's and see what the fault follows");
  }
  // Else it never was up, and nothing says that it should be: if other nodes have a cable there, the values differ.
  return row;
}

void check_states(const Probe& probe, const std::vector<RdmaPort>& ports, Rows& rows) {
  const CheckRows check(rows, "rdma.state");
  std::size_t unknown = 0;
  for (const RdmaPort& port : ports) {
    DoctorRow row = state_row(probe, port, ports);
    unknown += row.outcome == Outcome::skip ? 1 : 0;
    if (row.outcome != Outcome::skip || unknown == 1) rows.push_back(std::move(row));
  }
  const bool any = std::ranges::any_of(ports, [](const RdmaPort& port) { return port.active(); });
  if (any) return;
  check.warn("no port is active", "RDMA devices, and none of them has a link",
             "cable, transceiver, switch port; without one jobs take TCP");
}

void check_rate(const RdmaPort& port, const std::vector<RdmaPort>& ports, Rows& rows) {
  if (!port.active() || port.rate.empty()) return;
  DoctorRow row = equal_row("rdma.rate", port.name, port.rate, Outcome::fail,
                            "the node that differs: cable, transceiver, or the port's speed set on the switch");
  std::size_t faster = 0;
  std::size_t alike = 0;
  double best = 0;
  for (const RdmaPort& other : ports) {
    if (other.model != port.model || !other.active()) continue;
    ++(other.gbit_per_s() > port.gbit_per_s() ? faster : alike);
    best = std::max(best, other.gbit_per_s());
  }
  if (faster > 0) {
    // A second set of ports on slower switches is a plan; one or two among many are not.
    mark_bad(row, faster > alike ? Outcome::fail : Outcome::warn,
             fmt::format("slower than other ports of the same kind here ({:g} Gb/sec)", best),
             "cable, transceiver, or the port's speed set on the switch (mlxlink shows what was negotiated)");
  }
  rows.push_back(std::move(row));
}

void check_link_layers(const Probe& probe, const std::vector<RdmaPort>& ports, Rows& rows) {
  std::set<std::string> layers;
  for (const RdmaPort& port : ports) {
    if (port.active() && !port.link_layer.empty()) layers.insert(port.link_layer);
  }
  if (layers.empty()) return;
  DoctorRow row = equal_row("rdma.link_layer", "", fmt::format("{}", fmt::join(layers, " and ")), Outcome::fail,
                            "set LINK_TYPE alike (mlxconfig)");
  if (layers.size() > 1 && !probe.environment.contains("NCCL_IB_HCA")) {
    mark_bad(row, Outcome::warn, "NCCL takes ports of both kinds as one set, unless it is told which",
             "name the compute ports: NCCL_IB_HCA==mlx5_0,mlx5_1,... ('=' in front: whole names)");
  }
  rows.push_back(std::move(row));
}

/// Verbs of a port need its character device.
void check_character_devices(const Probe& probe, const std::vector<RdmaPort>& ports, Rows& rows) {
  constexpr const char* kCheck = "rdma.uverbs";
  std::set<std::string> seen;
  std::vector<std::string> missing;
  std::vector<std::string> denied;
  for (const RdmaPort& port : ports) {
    if (!seen.insert(port.device).second) continue;
    const auto names = probe.list(fmt::format("/sys/class/infiniband/{}/device/infiniband_verbs", port.device));
    const std::string file = names.empty() ? "" : "/dev/infiniband/" + names.front();
    if (file.empty() || !probe.exists(file)) {
      missing.push_back(port.device);
    } else if (!probe.usable(file)) {
      denied.push_back(port.device);
    }
  }
  if (missing.empty() && denied.empty()) return rows.push_back(ok_row(kCheck, "", "all there and usable"));
  if (!missing.empty()) {
    rows.push_back(bad_row(Outcome::fail, kCheck, compress_hosts(missing), "missing",
                           "no /dev/infiniband/uverbsN: the device cannot be used",
                           "modprobe ib_uverbs; for a container --device /dev/infiniband"));
  }
  if (!denied.empty()) {
    rows.push_back(bad_row(Outcome::fail, kCheck, compress_hosts(denied), "no permission",
                           "this user may not read and write /dev/infiniband/uverbsN",
                           "udev rules of rdma-core (mode 0666), or the container's device permissions"));
  }
}

void check_rdma_ports(const Probe& probe, const std::vector<RdmaPort>& ports, Rows& rows) {
  check_devices(ports, rows);
  check_states(probe, ports, rows);
  for (const RdmaPort& port : ports) check_rate(port, ports, rows);
  check_link_layers(probe, ports, rows);
  check_character_devices(probe, ports, rows);
}

/// InfiniBand architecture specification 10.9.1.1: bit 15 is full membership; limited members cannot talk with each
/// other.
void check_partition_key(const Probe& probe, const RdmaPort& port, Rows& rows) {
  constexpr const char* kCheck = "rdma.pkey";
  const auto chosen = probe.environment.find("NCCL_IB_PKEY");
  const std::string index = chosen != probe.environment.end() ? chosen->second : "0";
  const auto text = probe.read(fmt::format("{}/pkeys/{}", port.path, index));
  if (!text) return rows.push_back(skip_row(kCheck, port.name, "the port tells no P_Key"));
  const unsigned key = leading_number<unsigned>(text->substr(text->starts_with("0x") ? 2 : 0), 16).value_or(0);
  DoctorRow row =
      equal_row(kCheck, port.name, *text, Outcome::fail, "the partitions that the subnet manager gives out");
  if (key == 0) {
    mark_bad(row, Outcome::fail, "there is no P_Key at the index that is used",
             "NCCL_IB_PKEY is an index into the port's table; the subnet manager fills it");
  } else if ((key & 0x8000) == 0) {
    mark_bad(row, Outcome::warn, "limited member of the partition: cannot talk with other limited members (status 12)",
             "make the ports full members in the subnet manager's partitions");
  }
  rows.push_back(std::move(row));
}

struct Gids {
  int v2_ip4 = -1;  ///< index of the first RoCE v2 GID of an IPv4 address
  int v2_ip6 = -1;  ///< ... of a routable IPv6 address
  bool local = false;
};

Gids read_gids(const Probe& probe, const RdmaPort& port) {
  constexpr int kMostGids = 256;
  constexpr int kMostEmpty = 16;  // in a row; a table has 256 places and a handful of entries
  Gids gids;
  for (int i = 0, empty = 0; i < kMostGids && empty < kMostEmpty; ++i) {
    const std::string gid = probe.read(fmt::format("{}/gids/{}", port.path, i)).value_or("");
    if (gid.find_first_not_of("0:") == std::string::npos) {
      ++empty;
      continue;
    }
    empty = 0;
    if (gid.starts_with("fe80:")) {
      gids.local = true;
      continue;
    }
    if (probe.read(fmt::format("{}/gid_attrs/types/{}", port.path, i)) != "RoCE v2") continue;
    int& first = gid.starts_with("0000:0000:0000:0000:0000:ffff:") ? gids.v2_ip4 : gids.v2_ip6;
    if (first < 0) first = i;
  }
  return gids;
}

void check_gids(const Probe& probe, const RdmaPort& port, Rows& rows) {
  constexpr const char* kCheck = "rdma.gid";
  constexpr const char* kRemedy = "give the port's interface an address, and bring it up before the job";
  const Gids gids = read_gids(probe, port);
  if (gids.v2_ip4 >= 0 || gids.v2_ip6 >= 0) {
    const bool ip4 = gids.v2_ip4 >= 0;
    const std::string index = std::to_string(ip4 ? gids.v2_ip4 : gids.v2_ip6);
    rows.push_back(equal_row(kCheck, port.name, fmt::format("RoCE v2 IPv{} at {}", ip4 ? 4 : 6, index), Outcome::warn,
                             "leave NCCL_IB_GID_INDEX unset (NCCL 2.21 and newer finds the right one)"));
    const auto chosen = probe.environment.find("NCCL_IB_GID_INDEX");
    if (chosen != probe.environment.end() && chosen->second != index && chosen->second != "-1") {
      rows.push_back(bad_row(Outcome::warn, "rdma.gid_index", port.name, chosen->second,
                             fmt::format("NCCL_IB_GID_INDEX is not where the RoCE v2 GID is ({})", index),
                             "unset NCCL_IB_GID_INDEX (NCCL 2.21 and newer finds the right one)"));
    }
  } else if (gids.local) {
    rows.push_back(bad_row(Outcome::warn, kCheck, port.name, "link-local only",
                           "only a link-local GID (fe80::): peers behind a router cannot be reached", kRemedy));
  } else {
    rows.push_back(bad_row(Outcome::fail, kCheck, port.name, "none", "the port has no RoCE v2 GID", kRemedy));
  }
}

/// The subnet manager gives each partition an MTU; RoCE's follows from its interface's, which check_mtu looks at.
void check_active_mtu(const Probe& probe, const std::vector<RdmaPort>& ports, Rows& rows) {
  constexpr const char* kCheck = "rdma.active_mtu";
  bool told = true;
  for (const RdmaPort& port : ports) {
    if (!port.active() || port.efa() || port.roce()) continue;
    const auto note = [&](const char* name) {
      const auto found = probe.notes.find(fmt::format("{}.{}/{}", name, port.device, port.port));
      return found == probe.notes.end() ? 0 : std::atoi(found->second.c_str());
    };
    const int active = note("ib.active_mtu");
    const int most = note("ib.max_mtu");
    told = told && active > 0;
    if (active <= 0) continue;
    DoctorRow row = equal_row(kCheck, port.name, std::to_string(active), Outcome::fail,
                              "one MTU for the partition in the subnet manager, and on all switches");
    if (active < most) {
      mark_bad(row, Outcome::warn, fmt::format("the port could have {}", most),
               "mtu=5 (4096) for the partition in the subnet manager (opensm: partitions.conf), and on all switches");
    }
    rows.push_back(std::move(row));
  }
  if (!told) rows.push_back(skip_row(kCheck, "", "libibverbs.so.1 is not here, or may not open the devices"));
}

/// Frames of RoCE: the largest payload is 4096, headers come on top.
void check_mtu(const Probe& probe, const std::vector<RdmaPort>& ports, Rows& rows) {
  constexpr const char* kCheck = "rdma.mtu";
  constexpr long long kWhole = 4200;
  std::map<long long, std::vector<std::string>> names;
  for (const RdmaPort& port : ports) {
    if (!port.active()) continue;
    for (const std::string& interface : port.interfaces) {
      const auto mtu = read_count(probe, fmt::format("/sys/class/net/{}/mtu", interface));
      if (!mtu) continue;
      DoctorRow row = equal_row(kCheck, port.name, std::to_string(*mtu), Outcome::fail,
                                "ip link set dev INTERFACE mtu N, alike on all nodes and switch ports");
      if (port.roce() && *mtu < kWhole) {
        mark_bad(row, Outcome::warn, "frames are too small for RoCE's payload of 4096 bytes",
                 "mtu 9000 on the interfaces and 9216 on the switches, everywhere");
      }
      rows.push_back(std::move(row));
      if (port.roce()) names[*mtu].push_back(interface);
    }
  }
  if (names.size() < 2) return;
  std::string value;
  for (const auto& [mtu, interfaces] : names) {
    value += fmt::format("{}{} on {}", value.empty() ? "" : ", ", mtu, compress_hosts(interfaces));
  }
  rows.push_back(bad_row(Outcome::warn, kCheck, "", value, "the RDMA interfaces of this node differ in MTU",
                         "ip link set dev INTERFACE mtu N, alike on all of them"));
}

void check_rdma_tables(const Probe& probe, const std::vector<RdmaPort>& ports, Rows& rows) {
  for (const RdmaPort& port : ports) {
    if (!port.active() || port.efa()) continue;
    if (port.roce()) {
      check_gids(probe, port, rows);
    } else {
      check_partition_key(probe, port, rows);
    }
  }
  check_active_mtu(probe, ports, rows);
  check_mtu(probe, ports, rows);
}

}  // namespace

void check_rdma(const Probe& probe, Rows& rows) {
  const std::vector<RdmaPort> ports = rdma_ports(probe);
  if (ports.empty()) {
    rows.push_back(skip_row("rdma", "", "no InfiniBand, RoCE or EFA device in /sys/class/infiniband"));
    return;
  }
  check_rdma_ports(probe, ports, rows);
  check_rdma_tables(probe, ports, rows);
}

}  // namespace busbar
