#pragma once

#include "driver/readers/input_file.h"
#include "driver/workload/trace_rank.h"

#include <vector>

namespace busbar {

/// The ranks of a log of NCCL with lines of calls (NCCL_DEBUG_SUBSYS=INIT,COLL) or of its Inspector. Sends and receives
/// that are an alltoall become one. Empty if it has neither.
std::vector<TraceRank> read_call_log(const InputFile& file);

/// The ranks of a dump of PyTorch's Flight Recorder. Throws Error(bad_config) if it is none.
std::vector<TraceRank> read_flight_dump(const InputFile& file);

}  // namespace busbar
