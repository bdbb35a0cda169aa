#include "common/base/compress_list.h"
#include "common/machine/machine_facts.h"
#include "driver/doctor/make_row.h"
#include "driver/doctor/network_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>

namespace busbar {
namespace {

/// InfiniBand architecture specification 10.9.1.1: bit 15 is full membership; limited members cannot talk with each
/// other.
void check_partition_key(const Probe& probe, const RdmaPort& port, Rows& rows) {
  constexpr const char* kCheck = "rdma.pkey";
  const auto chosen = probe.environment.find("NCCL_IB_PKEY");
  const std::string index = chosen != probe.environment.end() ? chosen->second : "0";
  const auto text = probe.read(fmt::format("{}/pkeys/{}", port.path, index));
  if (!text) return rows.push_back(skip_row(kCheck, port.name, "the port tells no P_Key"));
  unsigned key = 0;
  const std::size_t begin = text->starts_with("0x") ? 2 : 0;
  std::from_chars(text->data() + begin, text->data() + text->size(), key, 16);
  DoctorRow row =
      equal_row(kCheck, port.name, *text, Outcome::fail, "the partitions that the subnet manager gives out");
  if (key == 0) {
    row.outcome = Outcome::fail;
    row.reason = "there is no P_Key at the index that is used";
    row.remedy = "NCCL_IB_PKEY is an index into the port's table; the subnet manager fills it";
  } else if ((key & 0x8000) == 0) {
    row.outcome = Outcome::warn;
    row.reason = "limited member of the partition: cannot talk with other limited members (status 12)";
    row.remedy = "make the ports full members in the subnet manager's partitions";
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
      row.outcome = Outcome::warn;
      row.reason = fmt::format("the port could have {}", most);
      row.remedy =
          "mtu=5 (4096) for the partition in the subnet manager (opensm: partitions.conf), and on all switches";
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
        row.outcome = Outcome::warn;
        row.reason = "frames are too small for RoCE's payload of 4096 bytes";
        row.remedy = "mtu 9000 on the interfaces and 9216 on the switches, everywhere";
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

}  // namespace

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

}  // namespace busbar
