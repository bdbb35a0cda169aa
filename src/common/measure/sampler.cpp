#include "common/measure/sampler.h"

#include "common/measure/timed_loop.h"
#include "common/statistics/interval.h"
#include "common/statistics/trend.h"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

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

/// One lane's share of a batch.
class LaneBatch : LaneWalk {
 public:
  LaneBatch(Backend& backend, SmallBarrier& barrier, const BufferPlan& buffer_plan, const BatchShape& shape,
            std::barrier<>& local, int lane)
      : LaneWalk(backend, buffer_plan, local, lane), barrier_(barrier), shape_(shape) {}

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
    LaneWalk::meet([this] { barrier_.wait(); });
  }

  SmallBarrier& barrier_;
  const BatchShape& shape_;
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

constexpr double kQuantiles[] = {0.5, 0.9, 0.95, 0.99, 0.999};

/// In blocks, because neighboring epochs resemble each other more than any correlation that trend_p tries.
double trend_of(std::span<const double> epoch_medians_s) {
  constexpr std::size_t kBlocks = 20;
  constexpr double kLeastTime = 1e-15;  // [s]
  std::vector<double> logs;
  for (const double median_s : epoch_medians_s) logs.push_back(std::log(std::max(median_s, kLeastTime)));
  return trend_p(logs, kBlocks);
}

double quantile_of(const ThinnedSamples& samples, double q) { return quantile(samples.sorted(), q); }

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
  for (double& value : agreed)
    if (std::isnan(value)) value = std::numeric_limits<double>::infinity();
  world_.max(agreed);

  Batch batch;
  batch.elapsed_s = agreed[0];
  batch.now_s = agreed[1];
  batch.own_s = mine.own_s;
  for (const LaneTimes& lane : lanes)
    batch.own_start_s = std::max(batch.own_start_s, lane.start_s / (messages * shape.samples));
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
    if (result.call_s > 0)
      shape.samples = std::clamp(static_cast<int>((limit_s - spent) / result.call_s), 1, shape.samples);
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

StatCell::StatCell(std::size_t capacity, bool per_rank)
    : samples_(capacity), skews_(capacity), own_(capacity), late_(capacity), per_rank_(per_rank) {}

void StatCell::add(const Batch& batch, double spent_s, double spin_s) {
  epoch_medians_s_.push_back(median(batch.time_s));
  epoch_times_s_.push_back(batch.now_s);
  canary_s_.push_back(spin_s);
  spent_s_ += spent_s;
  timed_s_ +=
      std::accumulate(batch.time_s.begin(), batch.time_s.end(), 0.0) * shape.calls_per_sample * messages_per_call;
  for (double t : batch.time_s) samples_.add(t);
  epoch_ends_.push_back(samples_.count());
  for (double t : batch.skew_s) skews_.add(t);
  for (double t : batch.own_s) own_.add(t);
  starting_s_ += batch.own_start_s * static_cast<double>(batch.own_s.size());
  if (!per_rank_) return;
  for (double t : batch.late_s) late_.add(t);
  for (char last : batch.last) times_last_ += last != 0;
}

std::optional<StopReason> StatCell::test(const StopLimits& limits) {
  const int epochs = static_cast<int>(epoch_medians_s_.size());
  const bool is_last = epochs >= limits.rule.max_epochs;
  if (epochs >= next_test_ || is_last) {
    next_test_ = epochs + std::max(1, epochs / 10);
    const MedianPrediction prediction = predict_median(epoch_medians_s_, epoch_times_s_);
    const double width = prediction.relative_half_width();
    // Before that, the width says nothing about the time to come.
    const bool predicts = timed_s_ >= limits.min_time_s && prediction.span_s >= limits.least_span_s &&
                          prediction.allows(std::max(limits.rule.rel, width));
    const bool precise = precise_enough(limits.rule, stop_state_, epochs, width);
    if (precise && predicts) return StopReason::ci;
    // Narrow, but from a stretch that says nothing about the time to come: more epochs would.
    if (is_last && width <= limits.rule.rel) return StopReason::time;
    if (is_last || (predicts && hopeless(limits.rule, epochs, width))) return StopReason::noisy;
  }
  if (spent_s_ >= limits.cell_time_s && epochs >= limits.least_epochs) return cut_off(limits);
  return std::nullopt;
}

StopReason StatCell::cut_off(const StopLimits& limits) const {
  const int epochs = static_cast<int>(epoch_medians_s_.size());
  const MedianPrediction prediction = predict_median(epoch_medians_s_, epoch_times_s_);
  const double width = prediction.relative_half_width();
  const bool noisy =
      prediction.span_s >= limits.least_span_s && prediction.allows(width) && hopeless(limits.rule, epochs, width);
  return noisy ? StopReason::noisy : StopReason::time;
}

CellStats StatCell::stats(StopReason why) const {
  CellStats s;
  const MedianPrediction prediction = predict_median(epoch_medians_s_, epoch_times_s_);
  s.median_s = prediction.value;
  s.interval_s = prediction.interval;
  s.relative_half_width = prediction.relative_half_width();
  s.span_s = prediction.span_s;
  s.correlation_time_s = prediction.correlation_time_s;
  s.lag1 = lag1_about_median(epoch_medians_s_);
  s.stop = why;
  const std::vector<double> sorted = samples_.sorted();
  std::vector<std::size_t> ends;
  for (const std::uint64_t end : epoch_ends_) ends.push_back(samples_.kept_of(end));
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());  // some epochs have no kept samples
  for (double q : kQuantiles)
    s.quantiles.push_back({q, quantile(sorted, q), quantile_interval(samples_.kept(), ends, sorted, q)});
  s.quantiles.push_back({1, samples_.largest(), std::nullopt});
  s.epoch_medians_s = epoch_medians_s_;
  s.samples = samples_.count();
  s.samples_per_epoch = shape.samples;
  s.calls_per_sample = shape.calls_per_sample;
  s.warmup_calls = warm.calls;
  s.warmed_up = warm.settled;
  s.trend_p = trend_of(epoch_medians_s_);
  s.modes = two_modes(epoch_medians_s_);
  s.outliers = far_outliers(sorted);
  if (skews_.count() > 0) {
    s.skew_median_s = quantile_of(skews_, 0.5);
    s.skew_p99_s = quantile_of(skews_, 0.99);
  }
  s.canary_spread = spread_ratio(canary_s_);
  return s;
}

std::optional<StopReason> agree_on_stop(const Comm& world, std::optional<StopReason> why) {
  std::int8_t decision = why ? static_cast<std::int8_t>(*why) : -1;
  world.broadcast(&decision, sizeof decision, 0);
  return decision < 0 ? std::nullopt : std::optional(static_cast<StopReason>(decision));
}

double StatCell::own_mean_s() const { return own_.count() > 0 ? own_.sum() / static_cast<double>(own_.count()) : 0; }

double StatCell::own_start_s() const { return own_.count() > 0 ? starting_s_ / static_cast<double>(own_.count()) : 0; }

RankTime StatCell::own_rank() const {
  RankTime r;
  r.own_median_s = quantile_of(own_, 0.5);
  if (late_.count() == 0) return r;
  r.late_median_s = quantile_of(late_, 0.5);
  r.late_p99_s = quantile_of(late_, 0.99);
  r.last_share = static_cast<double>(times_last_) / static_cast<double>(late_.count());
  return r;
}

}  // namespace busbar
