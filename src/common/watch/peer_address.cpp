#include "common/watch/peer_address.h"

#include "common/base/lists.h"
#include "common/base/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>

namespace busbar {

int JobView::host_index() const {
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    if (contains(hosts[h], rank)) return static_cast<int>(h);
  }
  return rank == 0 ? 0 : 1;
}

std::vector<std::string> JobView::host_of_rank() const {
  // Before the addresses are exchanged, the launcher's count is enough if all processes are on this host.
  if (peers.empty() && nprocs > 0 && local_size == nprocs) return std::vector(nprocs, host);
  return mapped(peers, &PeerAddress::host);
}

void make_hosts_distinct(std::vector<PeerAddress>& peers) {
  struct Machine {
    std::string id, full_name;
  };
  std::map<std::string, std::vector<Machine>> machines;  // by name, in the order of their first ranks
  const auto index_of = [](const std::vector<Machine>& all, const PeerAddress& peer) {
    return std::ranges::find_if(all, [&](const Machine& m) { return m.id == peer.machine; }) - all.begin();
  };
  for (const PeerAddress& peer : peers) {
    std::vector<Machine>& all = machines[peer.host];
    if (index_of(all, peer) == std::ssize(all)) all.push_back({peer.machine, peer.full_name});
  }
  for (PeerAddress& peer : peers) {
    const std::vector<Machine>& all = machines[peer.host];
    if (all.size() < 2) continue;
    const auto same = std::ranges::count_if(all, [&](const Machine& m) { return m.full_name == peer.full_name; });
    const auto index = index_of(all, peer);
    peer.host = same == 1 && !peer.full_name.empty() ? peer.full_name : fmt::format("{}#{}", peer.host, index + 1);
  }
}

std::vector<std::vector<int>> group_by_host(const std::vector<PeerAddress>& peers) {
  return mapped(grouped(peers, &PeerAddress::host),
                [](const auto& host) { return mapped(host.second, &PeerAddress::rank); });
}

namespace {

std::atomic<std::uint64_t> all_bytes{0};  // only ever grows, as the kernel's own counters

}  // namespace

std::uint64_t watcher_bytes() noexcept { return all_bytes.load(std::memory_order_relaxed); }

void count_watcher_bytes(ssize_t n) noexcept {
  if (n > 0) all_bytes.fetch_add(static_cast<std::uint64_t>(n), std::memory_order_relaxed);
}

}  // namespace busbar
