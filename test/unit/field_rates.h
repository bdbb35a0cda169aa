#pragma once

// How often the intervals of --stat are right on a machine that drifts while cells take turns, in wall time: what
// test/unit/statistics_field_test.cpp bounds, and what test/bench/statistics_tables.cpp prints for
// docs/evidence/statistics.md. The truth is what an interval predicts: the median of the minute after it.

#include "common/measure/sampler.h"
#include "common/statistics/random.h"
#include "synthetic_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace busbar::rates {

/// Cells of one sampler, and when they stop.
struct Field {
  double correlation_time_s = 1;  ///< of the machine's drift
  double drift = DriftingMachine::kDrift;
  int cells = 1;
  StopLimits limits = {};
  double max_time_s = 120;
};

inline constexpr double kEpochTime = 10.5e-3;  ///< [s] of one epoch with all that belongs to it

/// Half width of the interval, as a logarithm, of somebody who knows the drift's law and the noise, from the epochs of
/// one cell over `span_s`: Kalman's filter with an unknown mean, and what the average of a minute has beyond it.
inline double oracle_half_width(const Field& field, double span_s) {
  constexpr double kMinute = 60;
  const double drift = DriftingMachine::kDrift * DriftingMachine::kDrift;
  const double noise = DriftingMachine::kEpochNoise * DriftingMachine::kEpochNoise;
  const double step_s = kEpochTime * field.cells;
  const double kept = std::exp(-step_s / field.correlation_time_s);
  double gained = 1;  // of the mean, what the state does not explain
  double variance = drift;
  double information = 0;
  for (double at_s = 0; at_s < span_s; at_s += step_s) {
    const double all = variance + noise;
    information += gained * gained / all;
    gained -= variance / all * gained;
    variance -= variance / all * variance;
    gained = 1 - kept * (1 - gained);
    variance = kept * kept * variance + drift * (1 - kept * kept);
  }
  const double average = field.correlation_time_s / kMinute * (1 - std::exp(-kMinute / field.correlation_time_s));
  const double of_mean = 1 - average * (1 - gained);
  const double ahead = drift * (2 * field.correlation_time_s / kMinute * (1 - average) - average * average);
  return 1.96 * std::sqrt(of_mean * of_mean / information + average * average * variance + ahead);
}

/// One simulated measurement.
class FieldRun {
 public:
  FieldRun(const Field& field, std::uint64_t seed)
      : field_(field),
        machine_(field.correlation_time_s, seed, field.drift),
        random_(seed),
        cells_(count(), StatCell(2, false)) {}

  struct Result {
    CellStats stats;
    double span_s = 0;  ///< from the cell's first epoch to its last
    double end_s = 0;
  };

  /// Every cell for as long as its limits say.
  std::vector<Result> until_stopped() {
    std::vector<Result> results(count());
    std::vector<std::size_t> active(count());
    std::iota(active.begin(), active.end(), std::size_t{0});
    while (!active.empty()) {
      random_.shuffle(std::span(active));
      std::erase_if(active, [&](std::size_t i) {
        add_epoch(i);
        std::optional<StopReason> why = cells_[i].test(field_.limits);
        if (!why && now_s() >= field_.max_time_s) why = cells_[i].cut_off(field_.limits);
        if (why) results[i] = result_of(i, *why);
        return why.has_value();
      });
    }
    return results;
  }

  /// The first cell after `span_s`, whatever the limits say; ten epochs at least.
  Result after(double span_s) {
    const auto epochs = static_cast<int>(std::max(10.0, span_s / (kEpochTime * field_.cells)));
    for (int epoch = 0; epoch < epochs; ++epoch) {
      add_epoch(0);
      for (int other = 1; other < field_.cells; ++other) pass();
    }
    return result_of(0, StopReason::time);
  }

  /// Whether the interval holds the median of the minute after it; lets that minute pass.
  bool covers(const Result& result) {
    const auto first = static_cast<std::size_t>(std::llround(result.end_s / kEpochTime));
    const auto minute = static_cast<std::size_t>(60 / kEpochTime);
    while (levels_.size() < first + minute) pass();
    std::vector<double> ahead(levels_.begin() + static_cast<std::ptrdiff_t>(first),
                              levels_.begin() + static_cast<std::ptrdiff_t>(first + minute));
    const auto middle = ahead.begin() + static_cast<std::ptrdiff_t>(minute / 2);
    std::nth_element(ahead.begin(), middle, ahead.end());
    const auto& interval = result.stats.interval_s;
    return interval && interval->low <= *middle && *middle <= interval->high;
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(field_.cells); }
  double now_s() const { return kEpochTime * static_cast<double>(levels_.size()); }

  void pass() {
    machine_.pass(kEpochTime);
    levels_.push_back(machine_.level());
  }

  void add_epoch(std::size_t cell) {
    pass();
    if (begin_s_.size() < count()) begin_s_.resize(count());
    if (begin_s_[cell] == 0) begin_s_[cell] = now_s();
    Batch batch;
    batch.time_s = batch.own_s = {machine_.epoch_median()};
    batch.elapsed_s = kEpochTime;
    batch.now_s = now_s();
    cells_[cell].add(batch, kEpochTime, 1);
  }

  Result result_of(std::size_t cell, StopReason why) const {
    return {cells_[cell].stats(why), now_s() - begin_s_[cell], now_s()};
  }

  Field field_;
  DriftingMachine machine_;
  Random random_;
  std::vector<StatCell> cells_;
  std::vector<double> begin_s_;
  std::vector<double> levels_;  ///< after each epoch's time
};

/// Whether a cell is said to have drifted that takes e^slope times as long at its end, all else wandering.
inline bool said_to_drift(double correlation_time_s, double drift, double slope, int epochs, double step_s, int trial) {
  DriftingMachine machine(correlation_time_s, 1 + static_cast<std::uint64_t>(trial), drift);
  StatCell cell(2, false);
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    machine.pass(step_s);
    Batch batch;
    batch.time_s = batch.own_s = {machine.epoch_median() * std::exp(slope * epoch / epochs)};
    batch.now_s = step_s * epoch;
    cell.add(batch, step_s, 1);
  }
  return cell.stats(StopReason::time).trend_p < kDriftP;
}

inline double middle_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline double half_width(const CellStats& stats) {
  return stats.interval_s ? std::log(stats.interval_s->high / stats.interval_s->low) / 2 : INFINITY;
}

struct Covered {
  double share = 0;       ///< of all cells
  double stopped_ci = 0;  ///< share of all cells
  double right_ci = 0;    ///< of these
  double wrong_ci = 0;    ///< share of all cells that stopped as ci and do not cover
  double half_width = 0;  ///< median, as a logarithm
  double span_s = 0;      ///< median
};

inline Covered covered_after(const Field& field, double span_s, int trials) {
  Covered all;
  std::vector<double> widths;
  for (int trial = 0; trial < trials; ++trial) {
    FieldRun run(field, 1 + static_cast<std::uint64_t>(trial));
    const FieldRun::Result result = run.after(span_s);
    all.share += run.covers(result) ? 1.0 / trials : 0;
    widths.push_back(half_width(result.stats));
    all.span_s = result.span_s;
  }
  all.half_width = middle_of(widths);
  return all;
}

inline Covered covered_when_stopped(const Field& field, int trials) {
  Covered all;
  std::vector<double> widths;
  std::vector<double> spans;
  for (int trial = 0; trial < trials; ++trial) {
    FieldRun run(field, 1 + static_cast<std::uint64_t>(trial));
    for (const FieldRun::Result& result : run.until_stopped()) {
      const bool right = run.covers(result);
      all.share += right ? 1 : 0;
      all.stopped_ci += result.stats.stop == StopReason::ci ? 1 : 0;
      all.right_ci += right && result.stats.stop == StopReason::ci ? 1 : 0;
      widths.push_back(half_width(result.stats));
      spans.push_back(result.span_s);
    }
  }
  all.wrong_ci = (all.stopped_ci - all.right_ci) / static_cast<double>(spans.size());
  all.right_ci = all.stopped_ci > 0 ? all.right_ci / all.stopped_ci : 1;
  all.share /= static_cast<double>(spans.size());
  all.stopped_ci /= static_cast<double>(spans.size());
  all.half_width = middle_of(widths);
  all.span_s = middle_of(spans);
  return all;
}

}  // namespace busbar::rates
