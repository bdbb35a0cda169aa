#include "common/machine/machine_facts.h"
#include "driver/doctor/make_row.h"
#include "driver/doctor/network_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace busbar {
namespace {

std::string text_of(const Probe& probe, const NetCard& card, const char* name) {
  return card.path.empty() ? "" : probe.read(fmt::format("{}/{}", card.path, name)).value_or("");
}

/// The interfaces over which a job's processes can find each other.
void check_bootstrap(const Probe& probe, const std::vector<NetCard>& cards, Rows& rows) {
  constexpr const char* kCheck = "net.bootstrap";
  std::vector<std::string> names;
  for (const NetCard& card : cards) {
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
    row.outcome = Outcome::warn;
    row.reason = "several interfaces lead out, and NCCL takes the first that it finds, not the same on every node";
    row.remedy = "name the one that all nodes share: NCCL_SOCKET_IFNAME==eth0 ('=' in front: the whole name)";
  }
  rows.push_back(std::move(row));
}

/// `subject`: empty where the node has one such interface: equal nodes may call it differently.
void check_link(const Probe& probe, const NetCard& card, const std::string& subject, Rows& rows) {
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
      row.outcome = Outcome::warn;
      row.reason = "half duplex: the two ends did not agree";
      row.remedy = "let both ends negotiate; else the cable";
    }
    rows.push_back(std::move(row));
  }
}

/// A bond hides that one of its cables is gone.
void check_bonds(const Probe& probe, const std::vector<NetCard>& cards, Rows& rows) {
  for (const NetCard& card : cards) {
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

}  // namespace

void check_interfaces(const Probe& probe, const std::vector<NetCard>& cards, Rows& rows) {
  check_bootstrap(probe, cards, rows);
  const auto useful = [](const NetCard& card) { return card.routed && !card.of_no_use; };
  const bool one = std::count_if(cards.begin(), cards.end(), useful) == 1;
  for (const NetCard& card : cards) {
    if (useful(card)) check_link(probe, card, one ? "" : card.name, rows);
  }
  check_bonds(probe, cards, rows);
}

}  // namespace busbar
