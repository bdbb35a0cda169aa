#pragma once

#include "common/base/config.h"
#include "common/measure/buffer_plan.h"
#include "common/processes/comm.h"

#include <exception>
#include <functional>
#include <vector>

namespace busbar {

/// Ends the job because of an exception in one of several threads; does not return.
using FailJob = std::function<void(std::exception_ptr)>;

/// One process's times, per operation (per message if a call is several), over its lanes as -a says.
struct LoopTimes {
  double time_s = 0;
  double cpu_time_s = 0;            ///< until everything was enqueued; with --nonblocking only the starts
  std::vector<double> iteration_s;  ///< -I: per timed iteration, the largest over the lanes
};

/// Runs the warm-up and nccl-tests' timing loop: iters x agg_iters operations between a barrier and completion, the
/// slots in turn. Every process must call it with the same buffer_plan; a failure inside must end the job.
LoopTimes time_operations(Backend& backend, const Comm& world, const Config& config, const BufferPlan& buffer_plan,
                          const FailJob& fail);

/// Combines several numbers as -a says: the first, the mean, the smallest or the largest.
double combine(Average average, const std::vector<double>& values);

/// The same over the processes of `world`. Collective; the result on every process.
double combine(Average average, const Comm& world, double value);

}  // namespace busbar
