#pragma once

#include "common/mpi/comm.h"
#include "common/record/node_report.h"

#include <vector>

namespace busbar {

/// Every node of the job: the node's rows by one rank per host, the process's by each. Complete, in the order of the
/// nodes' lowest ranks, on process 0; empty elsewhere. Collective; throws AgreedError.
std::vector<NodeReport> gather_doctor(const Comm& world);

}  // namespace busbar
