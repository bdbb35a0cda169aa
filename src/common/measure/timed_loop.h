#pragma once

#include "common/base/config.h"
#include "common/measure/buffer_plan.h"
#include "common/processes/comm.h"

#include <barrier>
#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
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

/// Calls work(lane) for every lane of the backend at once, lane 0 on the calling thread (the one that may call MPI),
/// and returns when all are done. With one lane an exception propagates. With several it goes to `fail`, which must end
/// the job: the other lanes may be waiting for this one and can never be joined.
template <class Work, class Fail>
void run_on_lanes(Backend& backend, const Work& work, const Fail& fail) {
  const int lanes = backend.lanes();
  const auto enter = [&](int lane) {
    backend.enter_lane(lane);
    work(lane);
  };
  if (lanes == 1) {
    enter(0);
    return;
  }
  const auto guarded = [&](int lane) {
    try {
      enter(lane);
    } catch (...) {
      fail(std::current_exception());
    }
  };
  std::vector<std::thread> threads;
  for (int lane = 1; lane < lanes; ++lane) threads.emplace_back(guarded, lane);
  guarded(0);
  for (std::thread& t : threads) t.join();
}

/// One lane's way through a plan: it launches, the slots in turn, and meets the other lanes and processes.
class LaneWalk {
 protected:
  LaneWalk(Backend& backend, const BufferPlan& buffer_plan, std::barrier<>& local, int lane)
      : backend_(backend), buffer_plan_(buffer_plan), lane_(lane), local_(local) {}

  /// The processes meet in `wait`, which only lane 0 may touch.
  void meet(const auto& wait) {
    local_.arrive_and_wait();
    if (lane_ == 0) wait();
    local_.arrive_and_wait();
  }

  void launch_one() {
    backend_.launch(lane_, buffer_plan_.operation(), buffer_plan_.lane_buffers(slot_, lane_));
    if (++slot_ == buffer_plan_.slots()) slot_ = 0;
  }

  Backend& backend_;
  const BufferPlan& buffer_plan_;
  int lane_;
  std::size_t slot_ = 0;

 private:
  std::barrier<>& local_;
};

/// Launches the operation once, on all lanes, and waits for its end.
template <class Fail>
void launch_once(Backend& backend, const BufferPlan& buffer_plan, const Fail& fail) {
  const auto launch = [&](int lane) {
    backend.launch(lane, buffer_plan.operation(), buffer_plan.lane_buffers(0, lane));
    backend.synchronize(lane);
  };
  run_on_lanes(backend, launch, fail);
}

}  // namespace busbar
