#pragma once

#include "common/backends/backend.h"
#include "common/job/job.h"
#include "common/measure/result.h"
#include "common/measure/sampler.h"
#include "common/measure/verify.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// A step of the life cycle of communicators. Times are those of the slowest rank, the same on every process.
struct StepResult {
  LifecycleStep step = LifecycleStep::create;
  std::string skipped;  ///< why the library lacks it; empty: it has it
  double first_s = 0;   ///< create and first_op: of the job's own communicator; else of the first cycle
  std::uint64_t samples = 0;
  double least_s = 0;
  double most_s = 0;
  std::optional<CellStats> stats;  ///< null before the first epoch
  std::optional<InitTimings> first_phases;
  std::vector<InitTimings> phases;  ///< of each sample's slowest rank; on process 0, if NCCL reports them
};

/// The results so far.
struct LifecycleResult {
  Case operation;
  InitTime init;   ///< the job's own communicator
  int cycles = 0;  ///< without warm-up
  int cycles_per_epoch = 1;
  std::vector<StepResult> steps;
  std::int64_t wrong = 0;         ///< [elements], over all ranks
  std::vector<WrongRank> wrongs;  ///< the first ones, on process 0
};

/// Communicators that live one after the other. A barrier precedes each step; its time is the slowest rank's.
class Lifecycles {
 public:
  /// Runs the first operation of the backend's own communicator. Every member is collective unless it says otherwise.
  Lifecycles(Job& job, Backend& backend, CommunicatorLifecycle& lifecycle, const Config& config,
             std::vector<RankInfo> local_ranks);

  /// Runs life cycles: -n of them, or with --stat until the intervals are narrow, within --max-time. Calls `after`
  /// after each.
  void run(const std::function<void()>& after);

  /// The results so far. Local.
  const LifecycleResult& describe();

 private:
  struct Taken {
    double time_s = 0;  ///< of the slowest rank
    double now_s = 0;   ///< since the start, of the latest
  };
  Taken take(LifecycleStep step, const std::string& number);
  double run_operation(LifecycleStep step, const std::string& what);
  void check(const std::vector<WrongRank>& mine);
  std::optional<InitTimings> slowest_phases();
  void run_cycle(const std::string& number, bool counts);
  void end_epoch();
  bool enough();
  int cycles_per_epoch(double cycle_s) const;

  Job& job_;
  Backend& backend_;
  CommunicatorLifecycle& lifecycle_;
  const Config& config_;
  SmallOperation operation_;
  StopLimits limits_;
  Clock::time_point start_;
  double now_s_ = 0;  ///< agreed
  bool has_phases_ = false;
  int epochs_ = 0;
  std::vector<StatCell> cells_;  ///< of the steps
  std::vector<std::vector<double>> epoch_;
  std::vector<std::optional<StopReason>> stops_;
  LifecycleResult result_;
};

/// The whole of `comm_perf`: from the command line to the exit code. Never throws.
int run_comm(int argc, char** argv, const WrapBackend& wrap = {});

// The output of comm_perf, for a finished or an unfinished run. Pure.

/// The lines above the rows, including the columns' titles.
std::string lifecycle_header(const RunInfo& info);

/// A row for each step, the phases below the steps that create communicators, and the reasons of skipped steps.
std::string lifecycle_table(const Config& config, const LifecycleResult& result);

std::string lifecycle_footer(const LifecycleResult& result);

/// How a run ended; null: it is running or was cut off.
struct LifecycleEnd {
  std::string time;
  ExitCode code = ExitCode::good;
};

std::string lifecycle_json(const RunInfo& info, const LifecycleResult& result, const std::optional<LifecycleEnd>& end);

/// A line of column names, then a line for each step; times in microseconds, as in the benchmarks' CSV.
std::string lifecycle_csv(const RunInfo& info, const LifecycleResult& result);

}  // namespace busbar
