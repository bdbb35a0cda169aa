#pragma once

#include "common/record/node_report.h"

#include <vector>

namespace busbar {

/// Pure.
DoctorFinding join_nodes(const std::vector<NodeReport>& nodes);

/// Several processes of one node as one report: a row that all of them have stands once, without ranks. Each part has
/// one rank; host and time are the first's. Pure.
NodeReport merge_ranks(const std::vector<NodeReport>& parts);

/// What counters moved between two readings `seconds` apart, judged by the thresholds of counter_rules.cpp; a counter
/// that fell was reset and counts from 0. Pure.
std::vector<DoctorRow> moved_counters(const std::vector<CounterReading>& before,
                                      const std::vector<CounterReading>& after, double seconds);

}  // namespace busbar
