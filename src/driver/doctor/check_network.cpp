#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/machine/network.h"
#include "common/machine/tcp_table.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace busbar {
namespace {

std::string text_of(const Probe& probe, const NetInterface& card, const char* name) {
  return card.path.empty() ? "" : probe.read(fmt::format("{}/{}", card.path, name)).value_or("");
}

/// The interfaces over which a job's processes can find each other.
void check_bootstrap(const Probe& probe, const std::vector<NetInterface>& cards, const CheckRows& check) {
  std::vector<std::string> names;
  for (const NetInterface& card : cards) {
    if (card.routed && !card.of_no_use) names.push_back(card.name);
  }
  if (names.empty()) return check.warn("none", "no-way-out");
  const bool chosen = probe.environment.contains("NCCL_SOCKET_IFNAME");
  DoctorRow& row = check.agree(joined_words(names, ", "), Outcome::warn, "name-interface");
  if (names.size() > 1 && !chosen && has_gpus(probe)) mark_bad(row, Outcome::warn, "several-ways-out");
}

/// `subject`: empty if the node has one such interface, because equal nodes may call it differently.
void check_link(const Probe& probe, const NetInterface& card, const std::string& subject, Rows& rows) {
  const std::string state = text_of(probe, card, "operstate");
  const bool down = state == "down" || state == "lowerlayerdown";
  CheckRows(rows, "net.state", card.name).warn_unless(!down, state.empty() ? "unknown" : state, "interface-no-link");
  if (const std::string mtu = text_of(probe, card, "mtu"); !mtu.empty())
    CheckRows(rows, "net.mtu", subject).agree(mtu, Outcome::fail, "same-mtu");
  // -1 and an error of reading: virtual cards have no speed.
  const auto speed = card.path.empty() ? std::nullopt : read_count(probe, card.path + "/speed");
  if (speed && *speed > 0 && !down) {
    const bool half = text_of(probe, card, "duplex") == "half";
    DoctorRow& row = CheckRows(rows, "net.speed", subject)
                         .agree(fmt::format("{} Mb/s{}", *speed, half ? " half duplex" : ""),
                                has_rdma(probe) ? Outcome::warn : Outcome::fail, "same-speed");
    if (half) mark_bad(row, Outcome::warn, "half-duplex");
  }
}

/// A bond hides that one of its cables is gone.
void check_bonds(const Probe& probe, const std::vector<NetInterface>& cards, Rows& rows) {
  for (const NetInterface& card : cards) {
    const std::string status = text_of(probe, card, "bonding_slave/mii_status");
    if (!status.empty()) CheckRows(rows, "net.bond", card.name).warn_unless(status == "up", status, "bond-down");
  }
}

void check_interfaces(const Probe& probe, const std::vector<NetInterface>& cards, Rows& rows) {
  check_bootstrap(probe, cards, {rows, "net.bootstrap"});
  const auto useful = [](const NetInterface& card) { return card.routed && !card.of_no_use; };
  const bool one = std::ranges::count_if(cards, useful) == 1;
  for (const NetInterface& card : cards) {
    if (useful(card)) check_link(probe, card, one ? "" : card.name, rows);
  }
  check_bonds(probe, cards, rows);
}

void check_port_range(const Probe& probe, const CheckRows& check) {
  constexpr long kUsual = 28000;  // Linux: 32768 to 60999
  constexpr long kLeast = 1024;   // four per rank of one node with 256 of them
  const std::string text = probe.read("/proc/sys/net/ipv4/ip_local_port_range").value_or("");
  const auto words = words_of(text);
  const long first = leading_number<long>(words.size() == 2 ? words[0] : "").value_or(0);
  const long last = leading_number<long>(words.size() == 2 ? words[1] : "").value_or(0);
  if (last <= 0) return check.skip("the kernel does not say");
  DoctorRow& row = check.agree(fmt::format("{}-{}", first, last), Outcome::warn, "same-ports");
  if (last - first + 1 < kUsual) mark_bad(row, last - first + 1 < kLeast ? Outcome::fail : Outcome::warn, "few-ports");
}

void check_backlog(const Probe& probe, const CheckRows& check) {
  const auto backlog = read_count(probe, "/proc/sys/net/core/somaxconn");
  if (!backlog) return check.skip("the kernel does not say");
  DoctorRow& row = check.agree(std::to_string(*backlog), Outcome::warn, "same-backlog");
  if (*backlog < 1024 && has_gpus(probe)) mark_bad(row, Outcome::warn, "short-backlog");
}

/// Users that listen on a TCP port.
std::set<unsigned> listeners(const Probe& probe, int port) {
  std::set<unsigned> found;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    for (const TcpSocket& socket : parse_tcp_table(probe.read(file).value_or(""))) {
      if (socket.state == TcpState::listen && socket.local_port == port) found.insert(socket.uid);
    }
  }
  return found;
}

/// NCCL's RAS says on this port which rank waits for which.
void check_ras(const Probe& probe, const CheckRows& check) {
  constexpr int kPort = 28028;
  if (!has_gpus(probe) || probe.environment.contains("NCCL_RAS_ADDR")) return;
  for (const unsigned uid : listeners(probe, kPort)) {
    if (uid != probe.uid) return check.warn(fmt::format("taken by uid {}", uid), "ras-port-taken");
  }
  check.ok("free, or this user's");
}

}  // namespace

void check_network(const Probe& probe, Rows& rows) {
  check_interfaces(probe, net_interfaces(probe), rows);
  check_port_range(probe, {rows, "net.port_range"});
  check_backlog(probe, {rows, "net.somaxconn"});
  check_ras(probe, {rows, "net.ras_port"});
}

}  // namespace busbar
