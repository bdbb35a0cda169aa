#pragma once

#include "common/watch/peer_address.h"

#include <string>
#include <vector>

namespace busbar {

/// A process's picture of its job. Before MPI is up it knows its own host only.
struct JobView {
  std::string jobid;
  std::string host;
  std::string token;
  int rank = 0;
  int nprocs = 0;                       ///< 0: not known
  int local_size = 0;                   ///< processes on this host, as the launcher says; 0: not known
  std::vector<PeerAddress> peers;       ///< of every process, by rank; empty before they are exchanged
  std::vector<std::vector<int>> hosts;  ///< the ranks of each host, hosts by their lowest rank

  /// This process's place in `hosts`; 0 where they are not known and this is rank 0, else 1.
  int host_index() const;
  std::vector<std::string> host_of_rank() const;
};

/// Ranks by host name, hosts by their lowest rank.
std::vector<std::vector<int>> group_by_host(const std::vector<PeerAddress>& peers);

}  // namespace busbar
