#pragma once

#include "common/backends/observer.h"
#include "common/measure/buffer_plan.h"
#include "common/measure/result.h"
#include "common/measure/timed_loop.h"
#include "common/processes/comm.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace busbar {

/// Fills, launches and compares. One per run: it remembers the seeds of earlier data, so that it recognizes stale
/// results. Every process must make the same calls in the same order; only `verify_once`'s operation communicates.
class Verifier {
 public:
  Verifier(Backend& backend, std::vector<RankInfo> local_ranks);

  /// Data for a timed loop: fresh data and poisoned receive parts in every slot; for a reduction that is not idempotent
  /// in place, data that repetition does not change (zeros, ones), so that nothing overflows while it is timed.
  void prepare_timed(const BufferPlan& buffer_plan);

  /// Wrong data after the timed loop, on this process's ranks. Empty if nothing is wrong. Only after prepare_timed, and
  /// only if is_idempotent(buffer_plan.operation()).
  std::vector<WrongRank> check_timed(const BufferPlan& buffer_plan);

  /// One operation on fresh data between guard bands, compared in full. A failure inside must end the job.
  std::vector<WrongRank> verify_once(const BufferPlan& buffer_plan, bool through_graph, const FailJob& fail);

 private:
  int nlocal() const { return static_cast<int>(local_ranks_.size()); }
  const Pattern& pattern(const Operation& op, std::uint64_t seed);
  void remember(std::uint64_t seed);
  void prepare_slot(const BufferPlan& buffer_plan, std::size_t slot, std::uint64_t seed);
  void set_guards(const BufferPlan& buffer_plan, int local);
  void check_slot(const BufferPlan& buffer_plan, std::size_t slot, std::uint64_t seed, int local, WrongPart part,
                  std::vector<WrongRank>& found);
  void check_guards(const BufferPlan& buffer_plan, int local, std::vector<WrongRank>& found);
  WrongRank record_of(int local) const;
  WrongRank explain(const Operation& op, const Pattern& data, const std::vector<Block>& blocks, const std::byte* recv,
                    const CheckResult& result, int local);

  Backend& backend_;
  std::vector<RankInfo> local_ranks_;
  Pattern pattern_;
  bool have_pattern_ = false;
  std::uint64_t next_seed_ = 1;
  std::uint64_t timed_seed_ = 0;
  std::vector<std::uint64_t> earlier_;  ///< newest first, of the same dtype and op
};

/// Sum over the records.
std::uint64_t count_wrong(const std::vector<WrongRank>& wrong);

/// The first use of a communicator: an all_reduce of a few floats with a known answer. Its buffers exist before any
/// clock runs.
class SmallOperation {
 public:
  /// Allocates. Collective if the backend registers memory.
  SmallOperation(Backend& backend, std::vector<RankInfo> local_ranks, std::size_t nbytes, FailJob fail);

  const Case& row_case() const { return case_; }
  /// For the observer.
  CalledOperation called() const;

  /// Fresh data; before run().
  void prepare();
  /// Launches it and waits for its end; returns this process's time [s]. A failure inside must end the job.
  double run();
  /// Wrong results on this process's ranks.
  std::vector<WrongRank> check();

 private:
  Backend& backend_;
  FailJob fail_;
  Case case_;
  Arena arena_;
  BufferPlan buffer_plan_;
  Verifier verifier_;
};

inline constexpr std::size_t kSmallOperationBytes = 4096;

/// The time until a communicator could be used, of the slowest ranks.
struct InitTime {
  double create_s = 0;    ///< Backend::creation_s
  double first_op_s = 0;  ///< connects, if the library does so on first use
  double total_s() const { return create_s + first_op_s; }

  bool operator==(const InitTime&) const = default;
};

/// Runs the first operation of the backend's own communicator. Collective over `world`, whose ranks these are.
InitTime measure_init(const Comm& world, const Backend& backend, SmallOperation& operation);

}  // namespace busbar
