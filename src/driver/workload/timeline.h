#pragma once

#include "driver/workload/workload.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// What a GPU does, or the program for it.
enum class SpanKind : std::uint8_t { computing, communicating, copying, input };

/// A step's time: from `begin_ns` up to and without `end_ns`. Windows do not overlap and are in order.
struct StepWindow {
  std::int64_t begin_ns = 0, end_ns = 0;
  std::string name = {};
};

/// How long a window was in which state [ns]. overlapped + exposed = communicating.
struct StateTimes {
  std::int64_t computing = 0, overlapped = 0, exposed = 0;
  std::int64_t copying = 0;     ///< nothing but copies
  std::int64_t input_idle = 0;  ///< nothing, while the program waits for its input

  std::int64_t busy() const { return computing + exposed + copying; }
};

/// A kernel that communicates.
struct CommKernel {
  std::int64_t id = -1;  ///< which the trace has in common with the call; -1: none
  std::int64_t time_ns = 0;
  std::int64_t exposed_ns = 0;  ///< while nothing computed
};

inline constexpr std::size_t kMostSpans = std::size_t{1} << 20;

/// Adds up the states of one rank's GPU from intervals that come in any order. Times add up over parts of a step, so
/// intervals are forgotten once everything after them has come: memory does not grow with the trace, but with its
/// communication kernels.
class Timeline {
 public:
  /// `most_spans`: to hold before the earliest are added up.
  explicit Timeline(std::size_t most_spans = kMostSpans) : most_spans_(most_spans) {}

  /// An interval; one that does not last is ignored. `id`: of communication.
  void add(SpanKind activity, std::int64_t begin_ns, std::int64_t time_ns, std::int64_t id = -1);

  /// Whether so many are held that fold() should be called.
  bool is_full() const { return edges_.size() / 2 >= most_spans_; }
  /// Adds up what is earlier than all that came lately. Windows may be added from call to call, finish() included, if
  /// they begin in what is not added up yet.
  void fold(const std::vector<StepWindow>& windows);
  /// Adds up all.
  void finish(const std::vector<StepWindow>& windows);

  const std::vector<StateTimes>& states() const { return states_; }
  /// Of all time, in windows or not.
  const StateTimes& whole() const { return whole_; }
  const std::vector<CommKernel>& kernels() const { return kernels_; }
  /// Of the window in the middle.
  const ReportLanes& lanes() const { return lanes_; }
  /// Whether anything was added up.
  bool folded() const { return folded_until_ns_ != kNever; }
  /// Whether a window would begin too late, which is counted.
  bool is_too_late(std::int64_t begin_ns) { return begin_ns < folded_until_ns_ && ++too_late_ > 0; }
  /// Intervals, or parts of them, that came after their time had been added up, and are in no sum.
  std::uint64_t too_late() const { return too_late_; }
  /// What all intervals span.
  StepWindow extent() const { return extent_; }

 private:
  static constexpr std::int64_t kNever = INT64_MIN;
  /// Where an interval begins or ends.
  struct Edge {
    std::int64_t at_ns = 0;
    bool begins = false;
    SpanKind activity = SpanKind::computing;
    std::size_t kernel = 0;  ///< of kernels_, if it communicates
  };

  void sweep(const std::vector<StepWindow>& windows, std::int64_t until_ns);
  void accrue(const std::vector<StepWindow>& windows, std::int64_t from_ns, std::int64_t to_ns);
  void draw(const StepWindow& window, std::int64_t from_ns, std::int64_t to_ns);

  std::size_t most_spans_;
  std::vector<Edge> edges_;  ///< that are not in the sums yet
  std::vector<CommKernel> kernels_;
  std::vector<StateTimes> states_;
  StateTimes whole_;
  std::optional<std::size_t> drawn_;  ///< the window of lanes_
  ReportLanes lanes_;
  StepWindow extent_{INT64_MAX, INT64_MIN};
  std::int64_t folded_until_ns_ = kNever;
  std::uint64_t too_late_ = 0;
  // Up to the last edge that is in the sums.
  std::int64_t swept_ns_ = kNever;
  std::array<std::uint32_t, 4> active_{};
  std::size_t window_ = 0;
};

}  // namespace busbar
