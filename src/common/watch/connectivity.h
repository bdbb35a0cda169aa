#pragma once

#include "common/watch/peer_address.h"

#include <set>
#include <string>
#include <vector>

namespace busbar {

// Whether the watchers of a job can talk at all. A firewall, a network policy or a rail of its own lets MPI pass and
// not them; found out at the start it is one line, found out in a hang it is a wrong culprit.

/// Of so many hosts those at distances of 1, 2, 4, ... from one, both ways around.
std::set<int> hosts_at_distances(int hosts, int from);

/// The hosts that a host tries when the job begins, by their places in JobView::hosts: host 0, which collects, all of
/// them; any other the first few, whom it will alarm, and those at distances of 1, 2, 4, ...: O(N log N) in all.
std::vector<int> hosts_to_try(const JobView& view, int host);

/// Those of them that this host cannot connect to; its first process tries, all others find nothing. One whose system
/// takes the connection is met, however busy its processes are. Two seconds for who answers nothing; all others take a
/// moment.
std::vector<FailedConnection> check_connectivity(const JobView& view);

/// Of every host, whether this one may blame it for its silence: it was reached when the job began, or where it was not
/// tried from here, by all that tried. True of its own.
std::vector<bool> hosts_reached_at_start(const JobView& view);

/// Whether the first host can ask this one; one that cannot does not know what to say of it.
bool can_be_asked(const JobView& view);

/// What the header says of watchers that cannot meet; empty where all can.
std::string connectivity_remark(const JobView& view);

}  // namespace busbar
