#pragma once

#include "driver/doctor/checks.h"

#include <vector>

namespace busbar {

/// Ranks of one node that share a single CPU, from the rows that check_own_cpus made for each; `parts`: one per rank.
void check_shared_cpus(const Probe& probe, const std::vector<NodeReport>& parts, Rows& rows);

}  // namespace busbar
