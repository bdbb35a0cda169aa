#pragma once

#include "common/machine/gpus.h"
#include "common/machine/probe.h"
#include "common/mpi/comm.h"

#include <string>
#include <vector>

namespace busbar {

/// The NVLink that joins this host's GPUs with those of other hosts (the racks of GB200), as the fabric manager names
/// it: "CLUSTER/CLIQUE"; empty where there is none, or not all GPUs are in it. Pure.
std::string nvlink_domain(const HostGpus& gpus);

/// nvlink_domain of every host, in the order of their lowest ranks; complete on process 0. Asks NVML. Collective.
std::vector<std::string> nvlink_domains(const Comm& world);

/// What carries traffic between hosts, as this one shows: "mnnvl" where all hosts are in one of `domains`, "tcpxo"
/// where Google's plugin for it is set up, else by sysfs "ib", "roce", "efa" or "ethernet". Pure.
std::string network_of(const Probe& probe, const std::vector<std::string>& domains);

}  // namespace busbar
