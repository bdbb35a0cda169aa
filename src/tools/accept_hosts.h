#pragma once

#include "common/accept/accept_result.h"
#include "common/backends/backend.h"
#include "common/cluster/comm.h"
#include "common/doctor/probe.h"

#include <string>
#include <vector>

namespace busbar {

/// The job's hosts with their ranks and devices, in the order of their lowest ranks; complete on process 0. Collective.
std::vector<AcceptResult::Host> describe_hosts(const Comm& world, const Backend& backend);

/// What carries traffic between hosts as this one's sysfs shows: "ib", "roce", "efa", else "ethernet". Pure.
std::string network_of(const Probe& probe);

}  // namespace busbar
