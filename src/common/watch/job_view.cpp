#include "common/watch/job_view.h"

#include <algorithm>
#include <map>

namespace busbar {

int JobView::host_index() const {
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    if (std::find(hosts[h].begin(), hosts[h].end(), rank) != hosts[h].end()) return static_cast<int>(h);
  }
  return rank == 0 ? 0 : 1;
}

std::vector<std::string> JobView::host_of_rank() const {
  // Before the addresses are exchanged the launcher's word does, where all processes are here.
  if (peers.empty() && nprocs > 0 && local_size == nprocs) return std::vector(nprocs, host);
  std::vector<std::string> names;
  for (const PeerAddress& peer : peers) names.push_back(peer.host);
  return names;
}

std::vector<std::vector<int>> group_by_host(const std::vector<PeerAddress>& peers) {
  std::map<std::string, std::size_t> index;
  std::vector<std::vector<int>> hosts;
  for (const PeerAddress& peer : peers) {
    const auto [at, is_new] = index.try_emplace(peer.host, hosts.size());
    if (is_new) hosts.emplace_back();
    hosts[at->second].push_back(peer.rank);
  }
  return hosts;
}

}  // namespace busbar
