#pragma once

#include "common/measure/result.h"
#include "common/mpi/comm.h"

#include <vector>

namespace busbar {

/// Every process's records on process 0, in rank order of the processes; empty elsewhere. Collective.
std::vector<WrongRank> gather_wrong(const Comm& world, const std::vector<WrongRank>& mine);

}  // namespace busbar
