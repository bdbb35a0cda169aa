#pragma once

#include "common/doctor/node_report.h"
#include "common/doctor/probe.h"

#include <vector>

namespace busbar {

/// How often the control groups of this process ran out of processor time, its own and those around it together:
/// "cpu/quota/nr_throttled". Nothing where there is no such group.
void read_quota_counters(const Probe& probe, std::vector<CounterReading>& readings);

}  // namespace busbar
