#include "common/machine/error_counters.h"
#include "common/machine/network.h"
#include "common/watch/collector.h"
#include "common/watch/flight_record.h"
#include "common/watch/local_evidence.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace busbar {
namespace {

/// Uses the kernel's state of the job's old connections. A probe that was too slow proves nothing on busy cores, and
/// one that succeeded may use smaller packets than the job's connections.
void note_stalled(const JobView& view, const std::vector<TcpConnection>& connections, std::vector<PeerProbe>& probes) {
  std::set<std::string> stalled;
  for (const TcpConnection& one : connections)
    if (one.stalled && one.uid == getuid()) stalled.insert(one.remote);
  for (PeerProbe& probe : probes) {
    probe.stalled = std::ranges::any_of(
        view.peers, [&](const PeerAddress& peer) { return peer.host == probe.host && stalled.contains(peer.ip); });
    if (probe.stalled && probe.result == PeerProbe::Result::ok) probe.result = PeerProbe::Result::large_lost;
  }
}

/// Containers of one machine may share an address.
std::map<std::string, std::set<std::string>> hosts_by_address(const JobView& view) {
  std::map<std::string, std::set<std::string>> hosts;
  for (const PeerAddress& peer : view.peers)
    if (peer.host != view.host) hosts[peer.ip].insert(peer.host);
  return hosts;
}

/// The other hosts to which the owners of these sockets have connections; whether one of these is stalled.
std::map<std::string, bool> linked_hosts(const JobView& view, const std::vector<TcpConnection>& connections,
                                         const std::set<std::uint64_t>& sockets) {
  const std::map<std::string, std::set<std::string>> hosts = hosts_by_address(view);
  std::map<std::string, bool> linked;
  for (const TcpConnection& one : connections) {
    const auto to = hosts.find(one.remote);
    if (to == hosts.end() || !sockets.contains(one.inode)) continue;
    for (const std::string& host : to->second) linked[host] |= one.stalled;
  }
  return linked;
}

/// Links to as many hosts as a report can hold for each of many. `before`: hosts to which this process had connections.
std::vector<JobLink> job_links(const JobView& view, const std::vector<TcpConnection>& connections,
                               const std::vector<RankEvidence>& local, const std::map<std::string, bool>& before) {
  using State = JobLink::State;
  std::set<std::uint64_t> sockets = socket_inodes(getpid());
  for (const RankEvidence& rank : local)
    if (rank.process.life == ProcessState::Life::alive) sockets.merge(socket_inodes(rank.flight.pid));
  const std::map<std::string, bool> linked = linked_hosts(view, connections, sockets);
  std::vector<JobLink> links;
  for (const int h : hosts_to_try(view, view.host_index())) {
    const std::string& host = view.peers[view.hosts[h].front()].host;
    if (const auto found = linked.find(host); found != linked.end()) {
      links.push_back({host, found->second ? State::stalled : State::standing});
    } else if (before.contains(host)) {
      links.push_back({host, State::closed});
    }
  }
  return links;
}

/// Runs `work` in a detached thread. False: the system has no thread left.
template <class Work>
bool left_to_itself(Work work) {
  try {
    std::thread(std::move(work)).detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace

std::vector<RankEvidence> read_local_ranks(const JobView& view) {
  std::vector<RankEvidence> ranks;
  for (FlightState& flight : read_flights(flight_folders(), view.jobid)) {
    if (flight.host != view.host) continue;
    const ProcessState process = process_state(flight);
    ranks.push_back({std::move(flight), process});
  }
  return ranks;
}

struct HostObserver::Seen {
  using Clock = std::chrono::steady_clock;

  explicit Seen(std::filesystem::path the_root) : root(std::move(the_root)) {}

  /// Counts bytes from here on. Needs the lock.
  void note_network() {
    noted = Clock::now();
    noted_bytes = network_bytes();
    noted_own_bytes = watcher_bytes();
  }
  void note_counters();
  void look(const JobView& view);
  template <class Work>
  auto locked(Work work) {
    const std::lock_guard lock(mutex);
    return work();
  }
  template <class T>
  void keep(T& field, T value) {
    locked([&] { field = std::move(value); });
  }

  const std::filesystem::path root;
  std::mutex mutex;
  Clock::time_point noted{};  ///< since when the network is observed
  std::uint64_t noted_bytes = 0;
  std::uint64_t noted_own_bytes = 0;  ///< of which this watcher's
  std::map<std::string, std::uint64_t> early_counters;
  std::map<std::string, bool> linked;  ///< hosts to which this process had connections when the job began
  HostEvidence found;                  ///< by the observations: troubles, probes, what the network does
  bool counting = false;               ///< a thread reads the early counters
  bool looking = false;                ///< a thread makes the close observation
};

HostObserver::HostObserver(const std::filesystem::path& root) : seen_(std::make_shared<Seen>(root)) {}

void HostObserver::observe_early() {
  if (seen_->locked([this] { return std::exchange(seen_->counting, true); })) return;
  // A sick card may block the reader of its counters for ever.
  if (!left_to_itself([seen = seen_] { seen->note_counters(); })) seen_->keep(seen_->counting, false);
}

void HostObserver::note_links(const JobView& view) {
  seen_->keep(seen_->linked, linked_hosts(view, established_connections(seen_->root), socket_inodes(getpid())));
}

void HostObserver::Seen::note_counters() {
  std::map<std::string, std::uint64_t> counters;
  try {
    counters = error_counters(root);
  } catch (const std::exception&) {
    // then none
  }
  const std::lock_guard lock(mutex);
  note_network();
  early_counters = std::move(counters);
  found.net_bytes_per_s = -1;
  counting = false;
}

void HostObserver::look_closely(const JobView& view) {
  {
    const std::lock_guard lock(seen_->mutex);
    if (std::exchange(seen_->looking, true)) return;
    // Before the probes add to it.
    const std::chrono::duration<double> since = Seen::Clock::now() - seen_->noted;
    if (seen_->noted != Seen::Clock::time_point{} && since.count() > 0.2) {
      constexpr double kWithHeaders = 1.1;
      const auto all = static_cast<double>(network_bytes() - seen_->noted_bytes);
      const auto own = kWithHeaders * static_cast<double>(watcher_bytes() - seen_->noted_own_bytes);
      seen_->found.net_bytes_per_s = std::max(0.0, all - own) / since.count();
    }
  }
  if (!left_to_itself([seen = seen_, view] { seen->look(view); })) seen_->keep(seen_->looking, false);
}

void HostObserver::Seen::look(const JobView& view) {
  const auto before = locked([this] { return early_counters; });
  std::vector<PeerProbe> probed;
  try {
    probed = probe_peers(probe_targets(view), view.token, kProbeLimit);
  } catch (const std::exception&) {
    probed.clear();  // no sockets left: the troubles show it
  }
  keep(found.probes, std::move(probed));
  keep(found.troubles, host_troubles(before, root));
  // May wait for seconds while network interfaces are added or removed on the machine.
  const int now = view.peers.empty() ? 0 : interface_mtu(interface_of(view.peers[view.rank].ip));
  const std::lock_guard lock(mutex);
  found.mtu = now;
  // Traffic that the watchers of this host have just caused is no progress of the job.
  if (noted != Clock::time_point{}) note_network();
  looking = false;
}

HostEvidence HostObserver::evidence(const JobView& view) {
  auto [host, linked] = seen_->locked([this] { return std::pair(seen_->found, seen_->linked); });
  host.host = view.host;
  host.reached = true;
  host.ranks = read_local_ranks(view);
  const std::vector<TcpConnection> connections = established_connections(seen_->root);
  note_stalled(view, connections, host.probes);
  if (view.hosts.size() > 1) host.links = job_links(view, connections, host.ranks, linked);
  // Orphans get another parent.
  if (const pid_t parent = getppid(); parent != parent_) {
    host.troubles.push_back(
        {Trouble::Kind::launcher,
         fmt::format("the launcher or daemon that started rank {} (pid {}) is gone", view.rank, parent_)});
  }
  return host;
}

std::vector<PeerAddress> probe_targets(const JobView& view) {
  constexpr int kAll = 32;
  const int n = static_cast<int>(view.hosts.size());
  const int own = view.host_index();
  std::set<int> wanted = hosts_at_distances(n, own);
  for (int h = 0; h < n && n <= kAll; ++h) wanted.insert(h);
  wanted.erase(own);
  const std::vector<bool> met = hosts_reached_at_start(view);
  std::vector<PeerAddress> targets;
  for (int h : wanted) {
    // A host that was never reached proves nothing about a way that broke.
    if (met[h]) targets.push_back(view.peers[view.hosts[h].front()]);
  }
  return targets;
}

}  // namespace busbar
