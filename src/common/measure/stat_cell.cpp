#include "common/measure/sampler.h"

#include "common/statistics/interval.h"
#include "common/statistics/trend.h"

#include <cmath>
#include <numeric>
#include <span>

namespace busbar {
namespace {

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
  for (double q : kQuantiles) {
    s.quantiles.push_back({q, quantile(sorted, q), quantile_interval(samples_.kept(), ends, sorted, q)});
  }
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
