#include "common/watch/host_observer.h"

#include "common/machine/error_counters.h"
#include "common/machine/network.h"
#include "common/watch/flight_record.h"
#include "common/watch/local_evidence.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_client.h"
#include "common/watch/peer_socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace busbar {
namespace {

/// What the kernel says of the connections that the job has had all along: a probe that was too slow proves nothing on
/// busy cores, and one that came through may have agreed on smaller packets than the job's connections once did.
void note_stalled(const JobView& view, std::vector<PeerProbe>& probes) {
  const std::set<std::string> stalled = stalled_addresses();
  for (PeerProbe& probe : probes) {
    probe.stalled = std::any_of(view.peers.begin(), view.peers.end(), [&](const PeerAddress& peer) {
      return peer.host == probe.host && stalled.contains(peer.ip);
    });
    if (probe.stalled && probe.result == PeerProbe::Result::ok) probe.result = PeerProbe::Result::large_lost;
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

HostObserver::~HostObserver() {
  if (thread_.joinable()) thread_.join();
}

void HostObserver::look_early() {
  auto counters = error_counters();
  const std::lock_guard lock(mutex_);
  note_network();
  early_counters_ = std::move(counters);
  net_bytes_per_s_ = -1;
}

/// From here on bytes are counted. Needs the lock.
void HostObserver::note_network() {
  noted_ = Clock::now();
  noted_bytes_ = network_bytes();
  noted_own_bytes_ = watcher_bytes();
}

void HostObserver::look_closely(const JobView& view) {
  {
    const std::lock_guard lock(mutex_);
    if (working_) return;
    working_ = true;
    // Before the probes add to it.
    const std::chrono::duration<double> since = Clock::now() - noted_;
    if (noted_ != Clock::time_point{} && since.count() > 0.2) {
      constexpr double kWithHeaders = 1.1;
      const auto all = static_cast<double>(network_bytes() - noted_bytes_);
      const auto own = kWithHeaders * static_cast<double>(watcher_bytes() - noted_own_bytes_);
      net_bytes_per_s_ = std::max(0.0, all - own) / since.count();
    }
  }
  const std::lock_guard lock(thread_mutex_);
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread([this, view] { work(view); });
}

void HostObserver::work(const JobView& view) {
  std::map<std::string, std::uint64_t> before;
  {
    const std::lock_guard lock(mutex_);
    before = early_counters_;
  }
  std::vector<PeerProbe> probes;
  try {
    probes = probe_peers(probe_targets(view), view.token, kProbeLimit);
  } catch (const std::exception&) {
    probes.clear();  // no sockets left: the troubles say so
  }
  {
    const std::lock_guard lock(mutex_);
    probes_ = std::move(probes);
  }
  std::vector<Trouble> troubles = host_troubles(before);
  {
    const std::lock_guard lock(mutex_);
    troubles_ = std::move(troubles);
  }
  // Waits, for seconds at times, while anybody on the machine adds or removes network interfaces.
  const int mtu = view.peers.empty() ? 0 : interface_mtu(interface_of(view.peers[view.rank].ip));
  const std::lock_guard lock(mutex_);
  mtu_ = mtu;
  // What all watchers of this host have just caused is nothing that moves in the job.
  if (noted_ != Clock::time_point{}) note_network();
  working_ = false;
}

HostEvidence HostObserver::evidence(const JobView& view) {
  HostEvidence host;
  host.host = view.host;
  host.reached = true;
  host.ranks = read_local_ranks(view);
  const std::lock_guard lock(mutex_);
  host.mtu = mtu_;
  host.net_bytes_per_s = net_bytes_per_s_;
  host.troubles = troubles_;
  host.probes = probes_;
  note_stalled(view, host.probes);
  // Orphans go to another parent.
  if (const pid_t parent = getppid(); parent != parent_) {
    host.troubles.push_back(
        {Trouble::Kind::launcher,
         fmt::format("what started rank {} (pid {}: the launcher or its daemon) is gone", view.rank, parent_)});
  }
  return host;
}

std::vector<PeerAddress> probe_targets(const JobView& view) {
  constexpr int kAll = 32;
  const int n = static_cast<int>(view.hosts.size());
  const int own = view.host_index();
  std::set<int> wanted;
  if (n <= kAll) {
    for (int h = 0; h < n; ++h) wanted.insert(h);
  } else {
    for (int distance = 1; distance < n; distance *= 2) {
      wanted.insert((own + distance) % n);
      wanted.insert((own - distance + n) % n);
    }
  }
  wanted.erase(own);
  std::vector<PeerAddress> targets;
  for (int h : wanted) targets.push_back(view.peers[view.hosts[h].front()]);
  return targets;
}

}  // namespace busbar
