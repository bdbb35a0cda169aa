#pragma once

#include "common/machine/probe.h"
#include "common/mpi/comm.h"
#include "common/record/node_report.h"

#include <vector>

namespace busbar {

/// This node alone, without MPI: what `doctor --local` looks at. Seconds at most.
NodeReport look_at_this_node();

/// The same for a machine that a probe shows, GPUs left out: they are not in files.
NodeReport look_at_node(const Probe& probe);

/// Every node of the job: the node's rows by one rank per host, the process's by each. Complete, in the order of the
/// nodes' lowest ranks, on process 0; empty elsewhere. Collective; throws AgreedError.
std::vector<NodeReport> gather_doctor(const Comm& world);

}  // namespace busbar
