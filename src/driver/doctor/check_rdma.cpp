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
#include <utility>

namespace busbar {
namespace {

/// "8 x MT_0000000838": fewer than on the other nodes is a card that fell off the bus. Ports without a cable show in
/// their state, which must agree too.
void check_devices(const std::vector<RdmaPort>& ports, Rows& rows) {
  std::map<std::string, int> models;
  for (const RdmaPort& port : ports) ++models[port.model];
  std::vector<std::string> words;
  for (const auto& [model, count] : models) words.push_back(fmt::format("{} x {}", count, model));
  CheckRows(rows, "rdma.devices").agree(joined_words(words, ", "), Outcome::fail, "same-devices");
}

/// The other functions of a card with several ports: one without a cable next to one that works is common.
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

/// Amazon's driver calls every port active: the interface that belongs to it, if any, knows. False: there is none.
bool check_efa_state(const Probe& probe, const RdmaPort& port, const CheckRows& check) {
  for (const std::string& name : port.interfaces) {
    const auto state = probe.read(fmt::format("/sys/class/net/{}/operstate", name));
    if (!state) continue;
    if (state == "up" || state == "unknown") {
      check.ok("interface up");
    } else {
      check.fail(fmt::format("interface {}", *state), "efa-interface-down");
    }
    return true;
  }
  return false;
}

void check_state(const Probe& probe, const RdmaPort& port, const std::vector<RdmaPort>& ports, const CheckRows& check) {
  DoctorRow& row = check.agree(fmt::format("{}, {}", port.state, port.phys_state), Outcome::fail, "same-port-states");
  if (port.active()) return;
  const bool linked = port.phys_state.find("LinkUp") != std::string::npos;
  const bool was_up = read_count(probe, port.path + "/counters/link_downed").value_or(0) > 0;
  if (linked) {
    mark_bad(row, Outcome::fail, port.roce() ? "interface-down" : "no-subnet-manager");
  } else if (was_up) {
    mark_bad(row, Outcome::fail, "port-went-down");
  } else if (peer_works(port, ports) && !sibling_works(port, ports)) {
    mark_bad(row, Outcome::fail, "port-down");
  }
  // Else it never was up, and nothing says that it should be: if other nodes have a cable there, the values differ.
}

void check_states(const Probe& probe, const std::vector<RdmaPort>& ports, Rows& rows) {
  bool unknown = false;
  for (const RdmaPort& port : ports) {
    const CheckRows check(rows, "rdma.state", port.name);
    if (!port.efa()) {
      check_state(probe, port, ports, check);
    } else if (!check_efa_state(probe, port, check) && !std::exchange(unknown, true)) {
      CheckRows(rows, "rdma.state").skip("the efa driver calls every port active, and no interface shows more");
    }
  }
  const bool any = std::ranges::any_of(ports, [](const RdmaPort& port) { return port.active(); });
  if (!any) CheckRows(rows, "rdma.state").warn("no port is active", "no-port-active");
}

void check_rate(const RdmaPort& port, const std::vector<RdmaPort>& ports, Rows& rows) {
  if (!port.active() || port.rate.empty()) return;
  DoctorRow& row = CheckRows(rows, "rdma.rate", port.name).agree(port.rate, Outcome::fail, "same-rates");
  std::size_t faster = 0;
  std::size_t alike = 0;
  double best = 0;
  for (const RdmaPort& other : ports) {
    if (other.model != port.model || !other.active()) continue;
    ++(other.gbit_per_s() > port.gbit_per_s() ? faster : alike);
    best = std::max(best, other.gbit_per_s());
  }
  if (faster > 0) {
    // A second set of ports on slower switches is intended; one or two among many are not.
    mark_bad(row, faster > alike ? Outcome::fail : Outcome::warn, "port-slower", fmt::format("{:g}", best));
  }
}

void check_link_layers(const Probe& probe, const std::vector<RdmaPort>& ports, Rows& rows) {
  std::set<std::string> layers;
  for (const RdmaPort& port : ports) {
    if (port.active() && !port.link_layer.empty()) layers.insert(port.link_layer);
  }
  if (layers.empty()) return;
  DoctorRow& row = CheckRows(rows, "rdma.link_layer")
                       .agree(fmt::format("{}", fmt::join(layers, " and ")), Outcome::fail, "same-link-type");
  if (layers.size() > 1 && !probe.environment.contains("NCCL_IB_HCA"))
    mark_bad(row, Outcome::warn, "mixed-link-layers");
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
  if (missing.empty() && denied.empty()) return CheckRows(rows, kCheck).ok("all there and usable");
  if (!missing.empty()) CheckRows(rows, kCheck, compress_hosts(missing)).fail("missing", "no-uverbs");
  if (!denied.empty()) CheckRows(rows, kCheck, compress_hosts(denied)).fail("no permission", "uverbs-denied");
}

/// InfiniBand architecture specification 10.9.1.1: bit 15 is full membership; limited members cannot reach another.
void check_partition_key(const Probe& probe, const RdmaPort& port, const CheckRows& check) {
  const auto chosen = probe.environment.find("NCCL_IB_PKEY");
  const std::string index = chosen != probe.environment.end() ? chosen->second : "0";
  const auto text = probe.read(fmt::format("{}/pkeys/{}", port.path, index));
  if (!text) return check.skip("the port has no P_Key");
  const unsigned key = leading_number<unsigned>(text->substr(text->starts_with("0x") ? 2 : 0), 16).value_or(0);
  DoctorRow& row = check.agree(*text, Outcome::fail, "same-partitions");
  if (key == 0) return mark_bad(row, Outcome::fail, "no-pkey");
  if ((key & 0x8000) == 0) mark_bad(row, Outcome::warn, "limited-member");
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
  const CheckRows check(rows, "rdma.gid", port.name);
  const Gids gids = read_gids(probe, port);
  if (gids.v2_ip4 >= 0 || gids.v2_ip6 >= 0) {
    const bool ip4 = gids.v2_ip4 >= 0;
    const std::string index = std::to_string(ip4 ? gids.v2_ip4 : gids.v2_ip6);
    check.agree(fmt::format("RoCE v2 IPv{} at {}", ip4 ? 4 : 6, index), Outcome::warn, "free-gid-index");
    const auto chosen = probe.environment.find("NCCL_IB_GID_INDEX");
    if (chosen != probe.environment.end() && chosen->second != index && chosen->second != "-1")
      CheckRows(rows, "rdma.gid_index", port.name).warn(chosen->second, "gid-index-wrong", index);
  } else if (gids.local) {
    check.warn("link-local only", "gid-link-local");
  } else {
    check.fail("none", "no-gid");
  }
}

/// The subnet manager gives each partition an MTU; RoCE's follows from its interface's, which check_mtu looks at.
void check_active_mtu(const Probe& probe, const std::vector<RdmaPort>& ports, Rows& rows) {
  constexpr const char* kCheck = "rdma.active_mtu";
  bool known = true;
  for (const RdmaPort& port : ports) {
    if (!port.active() || port.efa() || port.roce()) continue;
    const auto note = [&](const char* name) {
      const auto found = probe.notes.find(fmt::format("{}.{}/{}", name, port.device, port.port));
      return found == probe.notes.end() ? 0 : std::atoi(found->second.c_str());
    };
    const int active = note("ib.active_mtu");
    const int most = note("ib.max_mtu");
    known = known && active > 0;
    if (active <= 0) continue;
    DoctorRow& row = CheckRows(rows, kCheck, port.name).agree(std::to_string(active), Outcome::fail, "same-ib-mtu");
    if (active < most) mark_bad(row, Outcome::warn, "small-ib-mtu", most);
  }
  if (!known) CheckRows(rows, kCheck).skip("libibverbs.so.1 is not here, or may not open the devices");
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
      DoctorRow& row = CheckRows(rows, kCheck, port.name).agree(std::to_string(*mtu), Outcome::fail, "same-rdma-mtu");
      if (port.roce() && *mtu < kWhole) mark_bad(row, Outcome::warn, "small-roce-mtu");
      if (port.roce()) names[*mtu].push_back(interface);
    }
  }
  if (names.size() < 2) return;
  std::string value;
  for (const auto& [mtu, interfaces] : names) {
    value += fmt::format("{}{} on {}", value.empty() ? "" : ", ", mtu, compress_hosts(interfaces));
  }
  CheckRows(rows, kCheck).warn(value, "mixed-mtu");
}

}  // namespace

void check_rdma(const Probe& probe, Rows& rows) {
  const std::vector<RdmaPort> ports = rdma_ports(probe);
  if (ports.empty()) return CheckRows(rows, "rdma").skip("no InfiniBand, RoCE or EFA device in /sys/class/infiniband");
  check_devices(ports, rows);
  check_states(probe, ports, rows);
  for (const RdmaPort& port : ports) check_rate(port, ports, rows);
  check_link_layers(probe, ports, rows);
  check_character_devices(probe, ports, rows);
  for (const RdmaPort& port : ports) {
    if (!port.active() || port.efa()) continue;
    if (port.roce()) check_gids(probe, port, rows);
    if (!port.roce()) check_partition_key(probe, port, {rows, "rdma.pkey", port.name});
  }
  check_active_mtu(probe, ports, rows);
  check_mtu(probe, ports, rows);
}

}  // namespace busbar
