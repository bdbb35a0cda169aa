#pragma once

#include "common/machine/job_interface.h"

#include <sys/types.h>

#include <cstdint>
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

}  // namespace busbar
