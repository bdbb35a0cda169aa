#pragma once

#include "common/machine/job_interface.h"

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace busbar {

/// Where a process's watcher listens.
struct PeerAddress {
  int rank = 0;
  std::string host;
  std::string ip = {};  ///< IPv4 or IPv6, no names: a resolver can hang
  std::uint16_t port = 0;
  std::string full_name = {};  ///< of the host, with its domain
  std::string machine = {};    ///< equal if processes see one another's records: one start of one machine, one /dev/shm
};

/// Gives different names to hosts that share a short name (node1.rack2 and node1.rack3; containers, each with its own
/// /dev/shm): the full names, or else the short name and a number.
void make_hosts_distinct(std::vector<PeerAddress>& peers);

/// A host that could not connect to another when the job began, by their places in JobView::hosts.
struct FailedConnection {
  int from = 0;
  int to = 0;
  std::string why;  ///< for people
};

/// What a process knows of its job. Before MPI is up, it knows its own host only.
struct JobView {
  std::string jobid;
  std::string host;
  std::string token;
  int rank = 0;
  int nprocs = 0;                       ///< 0: not known
  int local_size = 0;                   ///< processes on this host, from the launcher; 0: not known
  std::vector<PeerAddress> peers;       ///< of every process, by rank; empty before they are exchanged
  std::vector<std::vector<int>> hosts;  ///< the ranks of each host, hosts by their lowest rank
  std::vector<FailedConnection>
      failed_connections;  ///< found by all at the start; empty: all that was tried came about

  /// This process's place in `hosts`; if they are not known, 0 for rank 0 and 1 for others.
  int host_index() const;
  std::vector<std::string> host_of_rank() const;
};

/// Ranks by host name, hosts by their lowest rank.
std::vector<std::vector<int>> group_by_host(const std::vector<PeerAddress>& peers);

/// What this process's watcher has sent and received so far, without the job's own traffic. Any thread.
std::uint64_t watcher_bytes() noexcept;
/// Adds the return value of send or recv.
void count_watcher_bytes(ssize_t n) noexcept;

// Whether the watchers of a job can talk at all. A firewall, a network policy or a separate rail may let MPI pass and
// stop them. Found at the start, this costs one line; found in a hang, it makes a wrong culprit.

/// The hosts at distances of 1, 2, 4, ... from `from`, in both directions around the ring of `hosts`.
std::set<int> hosts_at_distances(int hosts, int from);

/// The hosts that a host tries when the job begins, by their places in JobView::hosts. Host 0, which collects, tries
/// all; any other the first few, which it will alarm, and those at distances of 1, 2, 4, ...: O(N log N) in all.
std::vector<int> hosts_to_try(const JobView& view, int host);

/// The hosts of these that this host cannot connect to; only its first process tries. A host counts as reached if its
/// system takes the connection, however busy its processes are. Takes two seconds if a host does not answer, else a
/// moment.
std::vector<FailedConnection> check_connectivity(const JobView& view);

/// For every host, whether this one may blame it for silence: it was reached when the job began, or, if it was not
/// tried from here, by all that tried. True for this host.
std::vector<bool> hosts_reached_at_start(const JobView& view);

/// Whether the first host can ask this one. If it cannot, it does not know what to report about this one.
bool can_be_asked(const JobView& view);

/// What the header says about watchers that cannot connect; empty if all can.
std::vector<std::string> connectivity_remarks(const JobView& view);

}  // namespace busbar
