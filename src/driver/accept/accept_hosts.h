#pragma once

#include "common/backends/backend.h"
#include "common/mpi/comm.h"
#include "common/record/accept_result.h"

#include <vector>

namespace busbar {

/// The job's hosts with their ranks and devices, in the order of their lowest ranks; complete on process 0. Collective.
std::vector<AcceptResult::Host> describe_hosts(const Comm& world, const Backend& backend);

}  // namespace busbar
