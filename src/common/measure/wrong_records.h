#pragma once

#include "common/cluster/comm.h"
#include "common/measure/result.h"

#include <vector>

namespace busbar {

/// Every process's records on process 0, in rank order of the processes; empty elsewhere. Collective.
std::vector<WrongRank> gather_wrong(const Comm& world, const std::vector<WrongRank>& mine);

}  // namespace busbar
