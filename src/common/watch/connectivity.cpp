#include "common/watch/connectivity.h"

#include "common/base/sequences.h"
#include "common/watch/peer_messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {
namespace {

const PeerAddress& first_of(const JobView& view, int host) { return view.peers[view.hosts[host].front()]; }

}  // namespace

std::set<int> hosts_at_distances(int hosts, int from) {
  std::set<int> found;
  for (int distance = 1; distance < hosts; distance *= 2) {
    found.insert({(from + distance) % hosts, (from - distance + hosts) % hosts});
  }
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
