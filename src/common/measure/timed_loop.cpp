#include "common/measure/timed_loop.h"

#include "common/measure/observed_steps.h"

#include <algorithm>
#include <barrier>
#include <numeric>
#include <optional>

namespace busbar {
namespace {

/// The divisor of an iteration's time.
double messages_per_iteration(const Config& config, const BufferPlan& buffer_plan) {
  return static_cast<double>(config.agg_iters) * messages_per_call(buffer_plan);
}

/// One lane's share of the loop.
class LaneLoop : LaneWalk {
 public:
  LaneLoop(Backend& backend, const Comm& world, const Config& config, const BufferPlan& buffer_plan,
           std::barrier<>& local, int lane)
      : LaneWalk(backend, buffer_plan, local, lane), world_(world), config_(config) {}

  void warm_up() {
    if (config_.per_iter_timing) backend_.reserve_marks(lane_, (config_.blocking == 3 ? 2 : 1) * config_.iters);
    for (int i = 0; i < config_.warmup_iters; ++i) launch_one();
    backend_.synchronize(lane_);
    slot_ = 0;
  }

  /// Elapsed and enqueue time of the whole loop [s].
  LoopTimes measure() {
    if (config_.cudagraph > 0) return measure_graph();
    backend_.take_start_s(lane_);  // drop the warm-up's
    meet();
    const Clock::time_point start = Clock::now();
    run_iterations();
    const Clock::time_point enqueued = Clock::now();
    if (config_.per_iter_timing && config_.blocking != 3) backend_.mark(lane_, config_.iters);
    backend_.synchronize(lane_);
    const Clock::time_point end = Clock::now();
    const std::optional<double> start_s = backend_.take_start_s(lane_);
    // -z 3 leaves the barriers out of the time.
    if (config_.blocking == 3) return {inside_s_, start_s.value_or(inside_s_), {}};
    return {seconds(end - start), start_s.value_or(seconds(enqueued - start)), {}};
  }

  std::vector<double> iteration_times() {
    std::vector<double> times(config_.iters);
    const int stride = config_.blocking == 3 ? 2 : 1;
    for (int i = 0; i < config_.iters; ++i)
      times[i] = backend_.between(lane_, i * stride, i * stride + 1) / messages_per_iteration(config_, buffer_plan_);
    return times;
  }

 private:
  void meet() {
    LaneWalk::meet([this] { world_.barrier(); });
  }

  /// As a user's program would call: only the operations and the addresses of their buffers.
  void run_plain() {
    const Operation& op = buffer_plan_.operation();
    const std::size_t slots = buffer_plan_.slots();
    std::size_t slot = slot_;
    for (int i = 0; i < config_.iters; ++i) {
      backend_.launch(lane_, op, buffer_plan_.lane_buffers(slot, lane_));
      if (++slot == slots) slot = 0;
    }
    slot_ = slot;
  }

  void run_iterations() {
    const bool is_plain = config_.agg_iters == 1 && config_.blocking == 0 && !config_.per_iter_timing;
    if (is_plain && !TraceRange::is_watched()) return run_plain();
    for (int i = 0; i < config_.iters; ++i) {
      const Clock::time_point begin = config_.blocking == 3 ? Clock::now() : Clock::time_point{};
      if (config_.per_iter_timing) backend_.mark(lane_, config_.blocking == 3 ? 2 * i : i);
      run_aggregate();
      if (config_.blocking == 3) {
        backend_.synchronize(lane_);
        if (config_.per_iter_timing) backend_.mark(lane_, 2 * i + 1);
        inside_s_ += seconds(Clock::now() - begin);
        meet();
      }
    }
  }

  void run_aggregate() {
    const TraceRange range("iteration");
    if (config_.agg_iters > 1) backend_.group_begin(lane_);
    for (int a = 0; a < config_.agg_iters; ++a) {
      launch_one();
      // Inside an aggregated group nothing to wait for is launched yet.
      if (config_.agg_iters == 1 && (config_.blocking == 1 || config_.blocking == 2)) wait_inner();
    }
    if (config_.agg_iters > 1) {
      backend_.group_end(lane_);
      if (config_.blocking == 1 || config_.blocking == 2) wait_inner();
    }
  }

  void wait_inner() {
    backend_.synchronize(lane_);
    if (config_.blocking == 1) meet();
  }

  LoopTimes measure_graph() {
    backend_.capture_begin(lane_);
    run_iterations();
    backend_.capture_end(lane_);
    backend_.replay(lane_);
    backend_.synchronize(lane_);
    meet();
    const Clock::time_point start = Clock::now();
    for (int launch = 0; launch < config_.cudagraph; ++launch) backend_.replay(lane_);
    const Clock::time_point enqueued = Clock::now();
    backend_.synchronize(lane_);
    const Clock::time_point end = Clock::now();
    backend_.capture_release(lane_);
    return {seconds(end - start) / config_.cudagraph, seconds(enqueued - start) / config_.cudagraph, {}};
  }

  const Comm& world_;
  const Config& config_;
  double inside_s_ = 0;
};

}  // namespace

LoopTimes time_operations(Backend& backend, const Comm& world, const Config& config, const BufferPlan& buffer_plan,
                          const FailJob& fail) {
  const int lanes = backend.lanes();
  std::barrier<> local(lanes);
  std::vector<double> elapsed(lanes);
  std::vector<double> enqueue(lanes);
  std::vector<std::vector<double>> iterations(lanes);
  const auto work = [&](int lane) {
    LaneLoop loop(backend, world, config, buffer_plan, local, lane);
    loop.warm_up();
    const LoopTimes times = loop.measure();
    elapsed[lane] = times.time_s;
    enqueue[lane] = times.cpu_time_s;
    if (config.per_iter_timing) iterations[lane] = loop.iteration_times();
  };
  run_on_lanes(backend, work, fail);

  const double operations = config.iters * messages_per_iteration(config, buffer_plan);
  LoopTimes result{combine(config.average, elapsed) / operations, combine(config.average, enqueue) / operations, {}};
  if (config.per_iter_timing) {
    result.iteration_s = iterations[0];
    for (const std::vector<double>& lane : iterations)
      for (std::size_t i = 0; i < lane.size(); ++i) result.iteration_s[i] = std::max(result.iteration_s[i], lane[i]);
  }
  return result;
}

double combine(Average average, const std::vector<double>& values) {
  switch (average) {
    case Average::rank0:
      return values.front();
    case Average::mean:
      return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    case Average::min:
      return *std::ranges::min_element(values);
    case Average::max:
      return *std::ranges::max_element(values);
  }
  return values.front();
}

double combine(Average average, const Comm& world, double value) {
  switch (average) {
    case Average::rank0:
      world.broadcast(&value, sizeof value, 0);
      return value;
    case Average::mean:
      return world.sum(value) / world.size();
    case Average::min:
      return world.min(value);
    case Average::max:
      return world.max(value);
  }
  return value;
}

}  // namespace busbar
