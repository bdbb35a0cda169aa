#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/machine/network.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace busbar {
namespace {

std::string text_of(const Probe& probe, const NetInterface& card, const char* name) {
  return card.path.empty() ? "" : probe.read(fmt::format("{}/{}", card.path, name)).value_or("");
}

/// The interfaces over which a job's processes can find each other.
void check_bootstrap(const Probe& probe, const std::vector<NetInterface>& cards, Rows& rows) {
  constexpr const char* kCheck = "net.bootstrap";
  std::vector<std::string> names;
  for (const NetInterface& card : cards) {
    if (card.routed && !card.of_no_use) names.push_back(card.name);
  }
  if (names.empty()) {
    rows.push_back(
        bad_row(Outcome::warn, kCheck, "", "none",
                "no interface leads out of this node (loopback, containers' bridges, VPN and Wi-Fi left out)",
                "give one an address; a job on this node alone needs none"));
    return;
  }
  const bool chosen = probe.environment.contains("NCCL_SOCKET_IFNAME");
  DoctorRow row = equal_row(kCheck, "", fmt::format("{}", fmt::join(names, ", ")), Outcome::warn,
                            "NCCL_SOCKET_IFNAME takes a list of prefixes, such as eth,eno");
  if (names.size() > 1 && !chosen && has_gpus(probe)) {
    mark_bad(row, Outcome::warn,
             "several interfaces lead out, and NCCL takes the first that it finds, not the same on every node",
             "name the one that all nodes share: NCCL_SOCKET_IFNAME==eth0 ('=' in front: the whole name)");
  }
  rows.push_back(std::move(row));
}

/// `subject`: empty where the node has one such interface: equal nodes may call it differently.
void check_link(const Probe& probe, const NetInterface& card, const std::string& subject, Rows& rows) {
  const std::string state = text_of(probe, card, "operstate");
  const bool down = state == "down" || state == "lowerlayerdown";
  if (down) {
    rows.push_back(bad_row(Outcome::warn, "net.state", card.name, state,
                           "the interface has an address and a route, but no link", "cable, transceiver, switch port"));
  } else {
    rows.push_back(ok_row("net.state", card.name, state.empty() ? "unknown" : state));
  }
  if (const std::string mtu = text_of(probe, card, "mtu"); !mtu.empty()) {
    rows.push_back(equal_row("net.mtu", subject, mtu, Outcome::fail,
                             "ip link set dev INTERFACE mtu N, alike on all nodes: where they differ, large messages "
                             "hang while small ones pass"));
  }
  // -1 and an error of reading: virtual cards have no speed.
  const auto speed = card.path.empty() ? std::nullopt : read_count(probe, card.path + "/speed");
  if (speed && *speed > 0 && !down) {
    const bool half = text_of(probe, card, "duplex") == "half";
    DoctorRow row = equal_row("net.speed", subject, fmt::format("{} Mb/s{}", *speed, half ? " half duplex" : ""),
                              has_rdma(probe) ? Outcome::warn : Outcome::fail,
                              "the node that differs: cable, transceiver, or the switch port's speed");
    if (half) {
      mark_bad(row, Outcome::warn, "half duplex: the two ends did not agree",
               "let both ends negotiate; else the cable");
    }
    rows.push_back(std::move(row));
  }
}

/// A bond hides that one of its cables is gone.
void check_bonds(const Probe& probe, const std::vector<NetInterface>& cards, Rows& rows) {
  for (const NetInterface& card : cards) {
    const std::string status = text_of(probe, card, "bonding_slave/mii_status");
    if (status.empty()) continue;
    if (status == "up") {
      rows.push_back(ok_row("net.bond", card.name, status));
    } else {
      rows.push_back(bad_row(Outcome::warn, "net.bond", card.name, status, "a link of a bond is down",
                             "cable, transceiver, switch port"));
    }
  }
}

void check_interfaces(const Probe& probe, const std::vector<NetInterface>& cards, Rows& rows) {
  check_bootstrap(probe, cards, rows);
  const auto useful = [](const NetInterface& card) { return card.routed && !card.of_no_use; };
  const bool one = std::ranges::count_if(cards, useful) == 1;
  for (const NetInterface& card : cards) {
    if (useful(card)) check_link(probe, card, one ? "" : card.name, rows);
  }
  check_bonds(probe, cards, rows);
}

void check_port_range(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "net.port_range";
  constexpr long kUsual = 28000;  // Linux: 32768 to 60999
  constexpr long kLeast = 1024;   // four per rank of one node with 256 of them
  const std::string text = probe.read("/proc/sys/net/ipv4/ip_local_port_range").value_or("");
  const auto words = words_of(text);
  const long first = leading_number<long>(words.size() == 2 ? words[0] : "").value_or(0);
  const long last = leading_number<long>(words.size() == 2 ? words[1] : "").value_or(0);
  if (last <= 0) return rows.push_back(skip_row(kCheck, "", "the kernel does not tell"));
  DoctorRow row = equal_row(kCheck, "", fmt::format("{}-{}", first, last), Outcome::warn,
                            "sysctl net.ipv4.ip_local_port_range, alike on all nodes");
  if (last - first + 1 < kUsual) {
    mark_bad(row, last - first + 1 < kLeast ? Outcome::fail : Outcome::warn,
             "few ports for connections: every rank opens several per peer",
             "sysctl net.ipv4.ip_local_port_range='32768 60999' (as root)");
  }
  rows.push_back(std::move(row));
}

void check_backlog(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "net.somaxconn";
  const auto backlog = read_count(probe, "/proc/sys/net/core/somaxconn");
  if (!backlog) return rows.push_back(skip_row(kCheck, "", "the kernel does not tell"));
  DoctorRow row = equal_row(kCheck, "", std::to_string(*backlog), Outcome::warn, "sysctl net.core.somaxconn");
  if (*backlog < 1024 && has_gpus(probe)) {
    mark_bad(row, Outcome::warn, "all ranks of a job connect to rank 0 at once, and this many may wait",
             "sysctl net.core.somaxconn=4096 (as root)");
  }
  rows.push_back(std::move(row));
}

/// Users that listen on a TCP port, from the lines of /proc/net/tcp: local address, state 0A, uid in the eighth column.
std::set<unsigned> listeners(const Probe& probe, unsigned port) {
  constexpr std::string_view kListen = "0A";
  const std::string wanted = fmt::format(":{:04X}", port);
  std::set<unsigned> found;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const std::string text = probe.read(file).value_or("");
    for (const std::string_view line : lines_of_text(text)) {
      const auto words = words_of(line);
      if (words.size() < 8 || words[3] != kListen || !words[1].ends_with(wanted)) continue;
      found.insert(leading_number<unsigned>(words[7]).value_or(0));
    }
  }
  return found;
}

/// Where NCCL answers who waits for whom.
void check_ras(const Probe& probe, Rows& rows) {
  const CheckRows check(rows, "net.ras_port");
  constexpr unsigned kPort = 28028;
  if (!has_gpus(probe) || probe.environment.contains("NCCL_RAS_ADDR")) return;
  for (const unsigned uid : listeners(probe, kPort)) {
    if (uid == probe.uid) continue;
    check.warn(fmt::format("taken by uid {}", uid),
               "another user listens where NCCL's RAS service would: hangs are told with less evidence",
               "NCCL_RAS_ADDR=localhost:PORT with another port");
    return;
  }
  check.ok("free, or this user's");
}

void check_sockets(const Probe& probe, Rows& rows) {
  check_port_range(probe, rows);
  check_backlog(probe, rows);
  check_ras(probe, rows);
}

}  // namespace

void check_network(const Probe& probe, Rows& rows) {
  check_interfaces(probe, net_interfaces(probe), rows);
  check_sockets(probe, rows);
}

}  // namespace busbar
