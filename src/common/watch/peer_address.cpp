#include "common/watch/peer_address.h"

#include "common/base/lists.h"
#include "common/watch/peer_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>

namespace busbar {

int JobView::host_index() const {
  for (std::size_t h = 0; h < hosts.size(); ++h)
    if (contains(hosts[h], rank)) return static_cast<int>(h);
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

const PeerAddress& first_of(const JobView& view, int host) { return view.peers[view.hosts[host].front()]; }

}  // namespace

std::uint64_t watcher_bytes() noexcept { return all_bytes.load(std::memory_order_relaxed); }

void count_watcher_bytes(ssize_t n) noexcept {
  if (n > 0) all_bytes.fetch_add(static_cast<std::uint64_t>(n), std::memory_order_relaxed);
}

std::set<int> hosts_at_distances(int hosts, int from) {
  std::set<int> found;
  for (int distance = 1; distance < hosts; distance *= 2)
    found.insert({(from + distance) % hosts, (from - distance + hosts) % hosts});
  return found;
}

std::vector<int> hosts_to_try(const JobView& view, int host) {
  constexpr int kFirst = 8;
  const int n = static_cast<int>(view.hosts.size());
  std::set<int> wanted;
  for (int h = 0; h < (host == 0 ? n : std::min(kFirst, n)); ++h) wanted.insert(h);
  wanted.merge(hosts_at_distances(n, host));
  wanted.erase(host);
  return {wanted.begin(), wanted.end()};
}

std::vector<FailedConnection> check_connectivity(const JobView& view) {
  constexpr std::chrono::milliseconds kLimit{2000};
  const int own = view.host_index();
  if (view.hosts.size() < 2 || view.hosts[own].front() != view.rank) return {};
  const std::vector<int> tried = hosts_to_try(view, own);
  const std::vector<PeerAddress> peers = mapped(tried, [&](int host) { return first_of(view, host); });
  const std::vector<PeerReply> replies = ask_peers(peers, view.token, kPing, kLimit);
  std::vector<FailedConnection> failed;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const bool met = replies[i].result == PeerProbe::Result::ok || replies[i].connected;
    if (!met) failed.push_back({own, tried[i], replies[i].text});
  }
  return failed;
}

std::vector<bool> hosts_reached_at_start(const JobView& view) {
  const int own = view.host_index();
  std::vector<bool> met(view.hosts.size(), true);
  if (view.failed_connections.empty()) return met;
  const std::vector<int> tried = hosts_to_try(view, own);
  for (const FailedConnection& pair : view.failed_connections) {
    const bool tried_from_here = std::ranges::binary_search(tried, pair.to);
    if (pair.from == own || !tried_from_here) met[pair.to] = false;
  }
  met[own] = true;
  return met;
}

bool can_be_asked(const JobView& view) {
  const int own = view.host_index();
  return std::ranges::none_of(view.failed_connections,
                              [&](const FailedConnection& pair) { return pair.from == 0 && pair.to == own; });
}

std::vector<std::string> connectivity_remarks(const JobView& view) {
  if (view.failed_connections.empty()) return {};
  std::set<int> apart;
  for (const FailedConnection& pair : view.failed_connections) apart.insert({pair.from, pair.to});
  const FailedConnection& first = view.failed_connections.front();
  return {fmt::format("watchers: no connection between {} of {} hosts ({} to {} at {}: {})", apart.size(),
                      view.hosts.size(), first_of(view, first.from).host, first_of(view, first.to).host,
                      first_of(view, first.to).ip, first.why),
          "watchers: after a hang, run busbar diagnose --flight /dev/shm on every host for the rest"};
}

}  // namespace busbar
