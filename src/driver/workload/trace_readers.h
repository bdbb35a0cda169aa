#pragma once

#include "common/record/json_events.h"
#include "driver/readers/input_file.h"
#include "driver/workload/trace_rank.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What a file is, by its beginning.
enum class TraceKind : unsigned char { kineto, flight_dump, log, workload, refused, none };

struct RecognizedTrace {
  TraceKind kind = TraceKind::none;
  std::string_view what;  ///< "an execution trace of PyTorch"
  std::string instead;    ///< what to give in its place; empty: nothing to say
};

RecognizedTrace recognize_trace(std::string_view head);

/// What one trace of PyTorch's profiler (Kineto, JSON) says, read once. Calls are counted where c10d recorded them
/// (record_param_comms), in traces from before 2.2 by the annotations nccl:*; CPU libraries' by gloo:*. Steps are
/// ProfilerStep#N, else execute_context*, else what the calls repeat. Throws Error(bad_config) that begins with `name`
/// if it is no such trace, or cut before its first call.
TraceRank read_kineto(const NextBytes& next, const std::string& name);

/// Nanoseconds of a number of microseconds as it is written, exact to the nanosecond. INT64_MIN: no time.
std::int64_t nanoseconds_of(const std::string& microseconds, double value);

/// The ranks of a log of NCCL with lines of calls (NCCL_DEBUG_SUBSYS=INIT,COLL) or of its Inspector. Sends and receives
/// that are an alltoall become one. Empty if it has neither.
std::vector<TraceRank> read_call_log(const InputFile& file);

/// The ranks of a dump of PyTorch's Flight Recorder. Throws Error(bad_config) if it is none.
std::vector<TraceRank> read_flight_dump(const InputFile& file);

}  // namespace busbar
