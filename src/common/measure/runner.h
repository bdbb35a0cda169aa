#pragma once

#include "common/measure/observed_steps.h"
#include "common/measure/result.h"
#include "common/measure/verify.h"

namespace busbar {

/// Runs the buffer_plan's operation once, untimed, between observe_begin and observe_end (--show-algo). Every process
/// of `world` must call it; complete on process 0, which has the phases of all ranks. `local_ranks`: in the backend's
/// order.
ShownAlgorithm observe_operation(Backend& backend, const Comm& world, std::span<const RankInfo> local_ranks,
                                 const BufferPlan& buffer_plan, const FailJob& fail);

/// algbw and busbw [1e9 B/s] of an operation that takes `time_s`.
void set_bandwidths(const Collective& collective, const Problem& problem, double time_s, HalfResult& half);

/// What a reader of the row must know: why it has no in-place half, the backend's note, or the pairs of pingpong's
/// round; usually empty.
std::string row_note(const Backend& backend, const Plan& plan, const Case& row_case, Placements placement);

/// "all_reduce of 64 MiB float sum": the name of a row in messages.
std::string describe(const Collective& collective, const Case& row_case);

/// Measures and checks the rows of a plan, one at a time.
class Runner {
 public:
  /// `world`: all processes, which start each loop together; the backend's communicator may be a part of it (splits),
  /// and `communicator` is its number if runners take turns, for the watchdog.
  Runner(Backend& backend, const Comm& world, const Config& config, const Plan& plan, std::vector<RankInfo> local_ranks,
         Observer& observer, FailJob fail, int communicator = 0);

  /// One row. Every process must call it with the same case. The times and counts are the same on all processes;
  /// `wrong` is complete on process 0. A failure inside must end the job.
  Row run(const Case& row_case, int cycle);

  /// The step under way, for the message about a failure.
  const std::string& step() const { return steps_.current(); }

 protected:
  /// With at most one slot per call.
  BufferPlan buffer_plan_of(const Case& row_case, bool in_place, std::size_t calls) const;
  void begin_step(const Case& row_case, bool in_place, StepWork work);
  void prepare(const Case& row_case, const BufferPlan& buffer_plan);
  /// Operations of check().
  std::uint64_t check_calls(const Row& row) const;
  /// Verifies the half as -c says, and observes the row's first half (--show-algo).
  void check(const Case& row_case, const BufferPlan& buffer_plan, HalfResult& half, Row& row);

  Backend& backend_;
  const Comm& world_;
  const Config& config_;
  const Plan& plan_;
  std::vector<RankInfo> local_ranks_;
  ObservedSteps steps_;
  FailJob fail_;

 private:
  HalfResult run_half(const Case& row_case, bool in_place, Row& row);
  /// After the timed operations (if those can be judged: half.timed_verified) and with operations of its own. Sets
  /// half.wrong, the same on every process, and appends to row.wrong, complete on process 0. The rounds are agreed on,
  /// so that all processes stop after the same one.
  void verify(const BufferPlan& buffer_plan, HalfResult& half, Row& row);
  void gather_iterations(const LoopTimes& times, HalfResult& half) const;

  int communicator_;
  Arena arena_;
  Verifier verifier_;
};

}  // namespace busbar
