#pragma once

#include "common/backends/backend.h"
#include "common/base/config.h"
#include "common/measure/workload.h"
#include "common/mpi/comm.h"
#include "common/watch/watchdog.h"
#include "driver/locate/group_probe.h"
#include "driver/locate/slow_ranks.h"

#include <string>

namespace busbar {

/// Looks for ranks that are slow by themselves: solo probes (no communication), shares of a core while all spin,
/// arrivals at a small all_reduce after equal work, and for those who are late the same without them. About two
/// seconds, and half a second per doubling of the hosts for the common clock. The finding is complete on process 0, its
/// outcome the same everywhere. One rank per process. Collective; a failure inside must end the job.
RankFinding probe_ranks(const Comm& world, Backend& baseline, const Config& config, const Arena& arena, double warn,
                        double fail, Watchdog& watchdog, const WrapGroup& wrap);

}  // namespace busbar
