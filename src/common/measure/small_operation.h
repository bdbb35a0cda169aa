#pragma once

#include "common/backends/observer.h"
#include "common/measure/buffer_plan.h"
#include "common/measure/result.h"
#include "common/measure/timed_loop.h"
#include "common/measure/verify.h"
#include "common/processes/comm.h"

#include <cstddef>
#include <vector>

namespace busbar {

/// What a communicator is first used for: an all_reduce of a few floats whose answer is known. Its buffers are there
/// before any clock runs.
class SmallOperation {
 public:
  /// Allocates. Collective where the backend registers memory.
  SmallOperation(Backend& backend, std::vector<RankInfo> local_ranks, std::size_t nbytes, FailJob fail);

  const Case& row_case() const { return case_; }
  /// For the observer.
  CalledOperation called() const;

  /// Fresh data; before run().
  void prepare();
  /// Launches it and waits for its end; by this process's clock [s]. A failure inside must end the job.
  double run();
  /// What of the result is wrong on this process's ranks.
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

/// What it took until a communicator could be used, of the slowest ranks.
struct InitTime {
  double create_s = 0;    ///< Backend::creation_s
  double first_op_s = 0;  ///< which connects, where the library does so at need
  double total_s() const { return create_s + first_op_s; }

  bool operator==(const InitTime&) const = default;
};

/// Runs the first operation of the backend's own communicator. Collective over `world`, whose ranks these are.
InitTime measure_init(const Comm& world, const Backend& backend, SmallOperation& operation);

}  // namespace busbar
