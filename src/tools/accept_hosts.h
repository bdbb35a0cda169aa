#pragma once

#include "common/accept/accept_result.h"
#include "common/backends/backend.h"
#include "common/cluster/comm.h"

#include <vector>

namespace busbar {

/// The job's hosts with their ranks and devices, in the order of their lowest ranks; complete on process 0. Collective.
std::vector<AcceptResult::Host> describe_hosts(const Comm& world, const Backend& backend);

}  // namespace busbar
