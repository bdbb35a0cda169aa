#include "common/measure/sampler.h"

#include "common/measure/timed_loop.h"
#include "common/statistics/interval.h"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>

namespace busbar {
namespace {

/// Entry and exit of each sample on one lane, by the host's clock; or only durations, by the device's.
struct LaneTimes {
  std::vector<Clock::time_point> entry;
  std::vector<Clock::time_point> exit;
  std::vector<double> device_s;
  double start_s = 0;  ///< all samples: Backend::take_start_s
};

/// A device runs on after the launch: back to back, its own marks time the calls, and no host clock sees an entry.
bool timed_by_device(const Backend& backend, Cadence cadence) {
  return cadence == Cadence::stream && backend.asynchronous();
}

/// Settling calls, bundled like samples.
int settling_samples(const BatchShape& shape) {
  return (shape.settle + shape.calls_per_sample - 1) / shape.calls_per_sample;
}

/// Operations that a lane launches in a batch.
std::uint64_t operations_of(const Backend& backend, const BatchShape& shape) {
  const int settle =
      timed_by_device(backend, shape.cadence) ? shape.settle : settling_samples(shape) * shape.calls_per_sample;
  return static_cast<std::uint64_t>(settle) +
         static_cast<std::uint64_t>(shape.samples) * static_cast<std::uint64_t>(shape.calls_per_sample);
}

/// One lane's share of a batch. The lanes meet in `local`, the processes in `barrier`, which only lane 0 may touch.
class LaneBatch {
 public:
  LaneBatch(Backend& backend, SmallBarrier& barrier, const BufferPlan& buffer_plan, const BatchShape& shape,
            std::barrier<>& local, int lane)
      : backend_(backend), barrier_(barrier), buffer_plan_(buffer_plan), shape_(shape), local_(local), lane_(lane) {}

  LaneTimes run() {
    const bool by_device = timed_by_device(backend_, shape_.cadence);
    if (by_device) backend_.reserve_marks(lane_, shape_.samples);
    meet();
    if (by_device) return run_by_device();
    LaneTimes times;
    times.entry.resize(shape_.samples);
    times.exit.resize(shape_.samples);
    const bool isolated = shape_.cadence == Cadence::isolated;
    for (int i = -settling_samples(shape_); i < shape_.samples; ++i) {
      if (i == 0) backend_.take_start_s(lane_);  // drop the settling calls'
      if (isolated) meet();
      const Clock::time_point entry = Clock::now();
      for (int call = 0; call < shape_.calls_per_sample; ++call) launch_one();
      backend_.synchronize(lane_);
      if (i < 0) continue;
      times.entry[i] = entry;
      times.exit[i] = Clock::now();
    }
    times.start_s = backend_.take_start_s(lane_).value_or(0);
    return times;
  }

 private:
  LaneTimes run_by_device() {
    LaneTimes times;
    times.device_s.resize(shape_.samples);
    for (int i = 0; i < shape_.settle; ++i) launch_one();
    backend_.mark(lane_, 0);
    for (int i = 0; i < shape_.samples; ++i) {
      for (int call = 0; call < shape_.calls_per_sample; ++call) launch_one();
      backend_.mark(lane_, i + 1);
    }
    backend_.synchronize(lane_);
    for (int i = 0; i < shape_.samples; ++i) times.device_s[i] = backend_.between(lane_, i, i + 1);
    return times;
  }

  void meet() {
    local_.arrive_and_wait();
    if (lane_ == 0) barrier_.wait();
    local_.arrive_and_wait();
  }

  void launch_one() {
    backend_.launch(lane_, buffer_plan_.operation(), buffer_plan_.lane_buffers(slot_, lane_));
    if (++slot_ == buffer_plan_.slots()) slot_ = 0;
  }

  Backend& backend_;
  SmallBarrier& barrier_;
  const BufferPlan& buffer_plan_;
  const BatchShape& shape_;
  std::barrier<>& local_;
  int lane_;
  std::size_t slot_ = 0;
};

/// This process's samples over its lanes: its entry is its last lane's, and so is its exit.
struct ProcessTimes {
  std::vector<double> entry_s, exit_s;  ///< on the global clock; empty if the device timed
  std::vector<double> own_s;
};

/// `messages`: per sample; times are per message.
ProcessTimes over_lanes(const std::vector<LaneTimes>& lanes, const BatchShape& shape, double messages,
                        const GlobalClock& clock) {
  ProcessTimes p;
  for (int i = 0; i < shape.samples; ++i) {
    double own = 0;
    double entry = 0;
    double exit = 0;
    for (const LaneTimes& lane : lanes) {
      if (!lane.device_s.empty()) {
        own = std::max(own, lane.device_s[i]);
        continue;
      }
      own = std::max(own, seconds(lane.exit[i] - lane.entry[i]));
      entry = std::max(entry, clock.at(lane.entry[i]));
      exit = std::max(exit, clock.at(lane.exit[i]));
    }
    p.own_s.push_back(own / messages);
    if (!lanes.front().device_s.empty()) continue;
    p.entry_s.push_back(entry);
    p.exit_s.push_back(exit);
  }
  return p;
}

void append(std::vector<double>& to, const std::vector<double>& from, double sign) {
  for (double value : from) to.push_back(sign * value);
}

}  // namespace

Sampler::Sampler(const Comm& world, const GlobalClock& clock, FailJob fail)
    : world_(world), clock_(clock), fail_(std::move(fail)), barrier_(world.small_barrier()), start_(Clock::now()) {}

double Sampler::now_s() const { return seconds(Clock::now() - start_); }

Batch Sampler::measure(Backend& backend, const BufferPlan& buffer_plan, const BatchShape& shape) {
  if (before_batch_) before_batch_(backend, buffer_plan.operation(), operations_of(backend, shape));
  const std::shared_ptr<void> in_force = backend.settings_in_force();
  const Clock::time_point begin = Clock::now();
  std::barrier<> local(backend.lanes());
  std::vector<LaneTimes> lanes(backend.lanes());
  run_on_lanes(
      backend, [&](int lane) { lanes[lane] = LaneBatch(backend, *barrier_, buffer_plan, shape, local, lane).run(); },
      fail_);
  const double messages = static_cast<double>(shape.calls_per_sample) * messages_per_call(buffer_plan);
  const ProcessTimes mine = over_lanes(lanes, shape, messages, clock_);

  // One agreement for everything, by MAX, which gives the same bits on every process with any library.
  const Clock::time_point end = Clock::now();
  std::vector<double> agreed{seconds(end - begin), seconds(end - start_)};
  append(agreed, clock_.one_host() && !mine.exit_s.empty() ? mine.exit_s : mine.own_s, 1);
  append(agreed, mine.entry_s, 1);
  append(agreed, mine.entry_s, -1);
  for (double& value : agreed) {
    if (std::isnan(value)) value = std::numeric_limits<double>::infinity();
  }
  world_.max(agreed);

  Batch batch;
  batch.elapsed_s = agreed[0];
  batch.now_s = agreed[1];
  batch.own_s = mine.own_s;
  for (const LaneTimes& lane : lanes) {
    batch.own_start_s = std::max(batch.own_start_s, lane.start_s / (messages * shape.samples));
  }
  const auto n = static_cast<std::size_t>(shape.samples);
  const double* const ends = agreed.data() + 2;
  const double* const last_entries = ends + n;
  const double* const first_entries = last_entries + n;
  for (std::size_t i = 0; i < n; ++i) {
    if (mine.entry_s.empty()) {
      batch.time_s.push_back(ends[i]);
      continue;
    }
    batch.time_s.push_back(clock_.one_host() ? (ends[i] - last_entries[i]) / messages : ends[i]);
    batch.skew_s.push_back(last_entries[i] + first_entries[i]);
    batch.late_s.push_back(mine.entry_s[i] + first_entries[i]);
    batch.last.push_back(mine.entry_s[i] == last_entries[i]);
  }
  return batch;
}

const char* estimand(const Backend& backend, Cadence cadence, bool one_host) {
  if (timed_by_device(backend, cadence)) return "the slowest rank's own time (device clock)";
  return one_host ? "last in to last out" : "the slowest rank's own time";
}

BatchShape shape_for(double call_s, double clock_read_s, double batch_s, int least, int most, Cadence cadence) {
  BatchShape shape;
  shape.cadence = cadence;
  const double shortest = 20 * clock_read_s;
  const double call = std::max(call_s, 1e-9);
  shape.calls_per_sample = call < shortest ? static_cast<int>(std::ceil(shortest / call)) : 1;
  const double wanted = std::ceil(batch_s / (call * shape.calls_per_sample));
  shape.samples = static_cast<int>(std::clamp(wanted, static_cast<double>(least), static_cast<double>(most)));
  // A call this long outlasts the disturbance by the agreement.
  if (call > 1e-3) shape.settle = 1;
  return shape;
}

double clock_read_cost(const Comm& world) {
  std::vector<double> costs(1000);
  for (double& cost : costs) {
    const Clock::time_point begin = Clock::now();
    cost = seconds(Clock::now() - begin);
  }
  return world.max(median(costs));
}

WarmUp warm_up(Sampler& sampler, Backend& backend, const BufferPlan& buffer_plan, Cadence cadence, double limit_s) {
  constexpr int kLeastCalls = 10;
  constexpr double kLeastTime = 10e-3;  // [s]
  constexpr int kMostPerGroup = 1000;
  constexpr double kStillFalling = 0.95;  // relative to the last group
  WarmUp result;
  double spent = 0;
  double before = 0;
  for (BatchShape shape{.cadence = cadence, .settle = 0, .samples = 1};;
       shape.samples = std::min(std::max(5, 2 * shape.samples), kMostPerGroup)) {
    // A group must not exceed the remaining time.
    if (result.call_s > 0) {
      shape.samples = std::clamp(static_cast<int>((limit_s - spent) / result.call_s), 1, shape.samples);
    }
    const Batch batch = sampler.measure(backend, buffer_plan, shape);
    result.calls += shape.samples;
    spent += batch.elapsed_s;
    result.call_s = median(batch.time_s) * messages_per_call(buffer_plan);
    const bool falling = before == 0 || result.call_s < kStillFalling * before;
    before = result.call_s;
    if (!falling && result.calls >= kLeastCalls && spent >= kLeastTime) return result;
    if (spent >= limit_s) {
      result.settled = !falling;
      return result;
    }
  }
}

}  // namespace busbar
