#pragma once

#include "common/watch/peer_address.h"

#include <set>
#include <string>
#include <vector>

namespace busbar {

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
