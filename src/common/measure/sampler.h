#pragma once

#include "common/measure/buffer_plan.h"
#include "common/measure/result.h"
#include "common/measure/timed_loop.h"
#include "common/processes/comm.h"
#include "common/processes/global_clock.h"
#include "common/statistics/prediction.h"
#include "common/statistics/stop_rule.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace busbar {

/// The shape of one batch of samples; the same on all processes.
struct BatchShape {
  Cadence cadence = Cadence::isolated;  ///< not automatic
  int settle = 4;                       ///< calls before the first sample: the agreement disturbs the first few
  int samples = 20;
  int calls_per_sample = 1;
};

/// A batch as agreed by all processes, and this process's own part. Times are per call, or per message if a call is
/// several messages.
struct Batch {
  std::vector<double> time_s;  ///< per sample over the ranks: see estimand()
  std::vector<double> skew_s;  ///< per sample: last entry less first; empty if no host clock sees the entries
  double elapsed_s = 0;        ///< the longest wall time of the batch on any process, settling included
  double now_s = 0;            ///< since the sampler's creation, at the end of the batch, the largest of any process

  std::vector<double> own_s;   ///< this process's own duration of each sample
  std::vector<double> late_s;  ///< its entry less the first process's; empty if skew_s is
  std::vector<char> last;      ///< it entered last
  double own_start_s = 0;      ///< its mean time to start one (Backend::take_start_s); 0: not known
};

/// Takes batches of samples, for the statistical mode and comparisons. Inside a batch nothing communicates except the
/// operations and, if calls are isolated, the barrier before each (our own, so that the library under test does not
/// choose it). One agreement ends it.
class Sampler {
 public:
  Sampler(const Comm& world, const GlobalClock& clock, FailJob fail);

  /// Called before each batch, outside of all times, with the operation and the number of calls.
  using BeforeBatch = std::function<void(const Backend& backend, const Operation& op, std::uint64_t calls)>;
  void before_batches(BeforeBatch call) { before_batch_ = std::move(call); }

  /// Collective over `world`, with the same arguments. A failure inside must end the job.
  Batch measure(Backend& backend, const BufferPlan& buffer_plan, const BatchShape& shape);

  /// Time since its creation, on this process.
  double now_s() const;

 private:
  const Comm& world_;
  const GlobalClock& clock_;
  FailJob fail_;
  std::unique_ptr<SmallBarrier> barrier_;
  Clock::time_point start_;
  BeforeBatch before_batch_;
};

/// What a sample is over the ranks, as text: "last in to last out" if all ranks share a clock, else "the slowest rank's
/// own time".
const char* estimand(const Backend& backend, Cadence cadence, bool one_host);

/// The shape for an operation of about `call_s`: samples for `batch_s` of timing, between `least` and `most` of them;
/// calls are bundled if one is shorter than 20 clock readings. Pure.
BatchShape shape_for(double call_s, double clock_read_s, double batch_s, int least, int most, Cadence cadence);

/// Cost of one clock reading [s], the largest over the processes. Collective.
double clock_read_cost(const Comm& world);

/// Calls until times no longer fall, at least 10 and 10 ms, at most `limit_s`; the agreed result. Collective.
struct WarmUp {
  int calls = 0;
  double call_s = 0;  ///< median of the last group over the ranks' largest
  bool settled = true;
};
WarmUp warm_up(Sampler& sampler, Backend& backend, const BufferPlan& buffer_plan, Cadence cadence, double limit_s);

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
