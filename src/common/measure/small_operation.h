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
