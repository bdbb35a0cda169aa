#pragma once

#include "common/measure/check_half.h"
#include "common/measure/watched_steps.h"

namespace busbar {

/// Measures and checks the rows of a plan, one at a time.
class Runner {
 public:
  /// `world`: all processes, which start each loop together; the backend's communicator may be a part of it (splits).
  Runner(Backend& backend, const Comm& world, const Config& config, const Plan& plan, std::vector<RankInfo> local_ranks,
         Watchdog& watchdog, FailJob fail);

  /// One row. Every process must call it with the same case. The times and counts are the same on all processes;
  /// `wrong` is complete on process 0. A failure inside must end the job.
  Row run(const Case& row_case, int cycle);

  /// The step under way, for the message of a failure.
  const std::string& step() const { return steps_.current(); }

 private:
  HalfResult run_half(const Case& row_case, bool in_place, Row& row);
  void gather_iterations(const LoopTimes& times, HalfResult& half) const;
  void begin(const Case& row_case, bool in_place, const StepWork& work);

  Backend& backend_;
  const Comm& world_;
  const Config& config_;
  const Plan& plan_;
  WatchedSteps steps_;
  FailJob fail_;
  Arena arena_;
  Verifier verifier_;
};

}  // namespace busbar
