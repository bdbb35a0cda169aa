#pragma once

#include "common/measure/buffer_plan.h"

#include <exception>
#include <thread>
#include <vector>

namespace busbar {

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
