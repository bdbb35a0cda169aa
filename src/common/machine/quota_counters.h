#pragma once

#include "common/machine/probe.h"
#include "common/record/node_report.h"

#include <vector>

namespace busbar {

/// How often the control groups of this process ran out of processor time, its own and those around it together:
/// "cpu/quota/nr_throttled". Nothing where there is no such group.
void read_quota_counters(const Probe& probe, std::vector<CounterReading>& readings);

}  // namespace busbar
