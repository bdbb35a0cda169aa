#pragma once

#include "common/measure/result.h"
#include "common/measure/sampler.h"
#include "common/processes/comm.h"
#include "common/statistics/prediction.h"
#include "common/statistics/stop_rule.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace busbar {

/// Samples in bounded memory: every one while there is room, then every second, every fourth, ... in order of arrival,
/// so that the kept ones are spread evenly over the run. Count, sum and largest cover all.
class ThinnedSamples {
 public:
  explicit ThinnedSamples(std::size_t capacity) : capacity_(std::max<std::size_t>(capacity, 2)) {}

  void add(double value) {
    if (count_ % stride_ == 0) {
      if (kept_.size() == capacity_) halve();
      if (count_ % stride_ == 0) kept_.push_back(static_cast<float>(value));
    }
    ++count_;
    sum_ += value;
    largest_ = std::max(largest_, value);
  }

  /// In order of arrival.
  const std::vector<float>& kept() const { return kept_; }
  /// How many of the first `count` samples are kept.
  std::size_t kept_of(std::uint64_t count) const { return static_cast<std::size_t>((count + stride_ - 1) / stride_); }
  std::vector<double> sorted() const {
    std::vector<double> values(kept_.begin(), kept_.end());
    std::ranges::sort(values);
    return values;
  }
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  double largest() const { return largest_; }

 private:
  void halve() {
    for (std::size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
    kept_.resize((kept_.size() + 1) / 2);
    stride_ *= 2;
  }

  std::size_t capacity_;
  std::vector<float> kept_;
  std::uint64_t stride_ = 1;
  std::uint64_t count_ = 0;
  double sum_ = 0;
  double largest_ = 0;
};

/// When a cell is done; from the options. Pure.
struct StopLimits {
  StopRule rule;
  double min_time_s = 0;    ///< of timing
  double least_span_s = 0;  ///< from the first epoch to the last, before the interval says anything
  double cell_time_s = 20;
  int least_epochs = 0;  ///< cell_time_s ends no cell before
};

/// One placement of one row while it is measured: the state of its batches. The added batches are agreed on, except the
/// process's own times. Results are not, because processes may compute other last bits.
class StatCell {
 public:
  /// `capacity`: samples to keep.
  StatCell(std::size_t capacity, bool per_rank);

  WarmUp warm;
  BatchShape shape;
  int messages_per_call = 1;  ///< messages per call: times are per message

  /// `spent_s`: time of the batch with all its preparation; `spin_s`: this pass's canary.
  void add(const Batch& batch, double spent_s, double spin_s);

  /// Why the cell is done, or null. Call this once after each batch: two narrow intervals in a row are needed. It tests
  /// again only after a tenth more epochs, because frequent tests find luck.
  std::optional<StopReason> test(const StopLimits& limits);

  /// Why it stops here although it is not done: more time would have helped, or not.
  StopReason cut_off(const StopLimits& limits) const;

  CellStats stats(StopReason why) const;

  /// This process's mean time of a call.
  double own_mean_s() const;

  /// This process's mean time to start a call; 0: not known.
  double own_start_s() const;

  /// This process as one rank of --per-rank; the caller sets rank and host.
  RankTime own_rank() const;

 private:
  ThinnedSamples samples_;
  ThinnedSamples skews_;
  ThinnedSamples own_;
  ThinnedSamples late_;
  bool per_rank_;
  std::uint64_t times_last_ = 0;
  std::vector<double> epoch_medians_s_;
  std::vector<double> epoch_times_s_;      ///< when each ended
  std::vector<std::uint64_t> epoch_ends_;  ///< [samples]
  int next_test_ = 0;                      ///< [epochs]
  std::vector<double> canary_s_;
  double timed_s_ = 0;
  double starting_s_ = 0;
  double spent_s_ = 0;
  StopState stop_state_;
};

/// Process 0's `why`, on all processes. Collective.
std::optional<StopReason> agree_on_stop(const Comm& world, std::optional<StopReason> why);

}  // namespace busbar
