#pragma once

#include "common/record/json_events.h"
#include "driver/workload/trace_rank.h"

#include <string>

namespace busbar {

/// What one trace of PyTorch's profiler (Kineto, JSON) says, read once. Calls are counted where c10d recorded them
/// (record_param_comms), in traces from before 2.2 by the annotations nccl:*; CPU libraries' by gloo:*. Steps are
/// ProfilerStep#N, else execute_context*, else what the calls repeat. Throws Error(bad_config) that begins with `name`
/// if it is no such trace, or cut before its first call.
TraceRank read_kineto(const NextBytes& next, const std::string& name);

/// Whether a kernel communicates, by its name.
bool is_communication_kernel(std::string_view name);

/// Nanoseconds of a number of microseconds as it is written, exact to the nanosecond. INT64_MIN: no time.
std::int64_t nanoseconds_of(const std::string& microseconds, double value);

}  // namespace busbar
