#pragma once

#include "common/base/error.h"
#include "common/measure/result.h"
#include "common/record/accept_result.h"
#include "driver/accept/accept_command.h"
#include "driver/accept/accept_steps.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

class Job;

/// Who runs the steps of a plan: all ranks of this job together, or the one process that launches a job for each part.
/// Everything else of an acceptance is the engine's. All processes call the same members in the same order.
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  /// The answer of the process that writes, not negative, for all. Every decision of the engine is one.
  virtual double agree(double mine) const = 0;
  /// What the process that writes does for all; where it throws, all fail alike.
  virtual void on_root(const std::function<void()>& work) const = 0;
  /// What is under way from now on, for the message of a failure and for the watchdog.
  virtual void enter(const std::string& /*step*/) {}

  /// What of the work is on disk from now on, for who interrupts it. On the process that writes.
  virtual void keep(std::string /*what*/) {}

  /// Says what runs and where; finds all that can be wrong before anything is measured.
  virtual void open(AcceptResult& /*result*/) {}
  /// On the process that writes alone, once its files are open: what an interrupted run left beside `results_file`.
  virtual void begin(AcceptResult& /*result*/, const std::string& /*results_file*/, bool /*resumed*/) {}

  /// False where the plan asks for what is not here.
  virtual bool can_measure(const AcceptResult& /*result*/) const { return true; }
  /// Runs the first of `pending`, with those that share its time or its launch, in `left_s` [s] (0: no bound). Returns
  /// the ids of steps that need not be tried again; each call finishes one, gives one up or leaves a host out.
  virtual std::vector<std::string> run(AcceptResult& result, const std::vector<AcceptStep>& pending, int repetition,
                                       double left_s) = 0;

  virtual bool can_locate(const AcceptResult& result) const = 0;
  /// Looks for the culprit, whether or not the plan has the stage pairs.
  virtual void locate(AcceptResult& result) = 0;

  /// What is read after the last step.
  virtual void close(AcceptResult& /*result*/) {}
};

/// The whole plan, judged: resumes, runs its steps once and again for repeat-for, looks for the culprit of a FAIL, and
/// writes verdict and files. Throws what the runner throws, and Error(bad_config) before anything is measured.
ExitCode run_acceptance(std::span<char*> args, const AcceptOptions& options, AcceptPlan plan, StepRunner& runner);

/// What a launch does of a plan: the steps of options.part, into options.part_results; who launched it judges.
ExitCode run_acceptance_part(std::span<char*> args, const AcceptOptions& options, AcceptPlan plan, StepRunner& runner);

/// A plan, or the steps of it that options.part names, in one job on an MPI that is up. Collective. Throws AgreedError
/// where all processes fail alike, anything else where the job must be aborted.
ExitCode run_accept_job(std::span<char*> args, const AcceptOptions& options, Job& job);

/// A plan by launches: each part in a job of its own, whose hang or crash becomes a finding with its culprit; the rest
/// goes on without that host. Verdict and files are always written. Called where no MPI is up. Throws Error, and
/// Interrupted, after which --resume goes on.
ExitCode run_accept_launches(std::span<char*> args, const AcceptOptions& options);

/// Tells the cell of `row` with that placement which ranks hold wrong data, and whom they blame. `group_ranks`: the
/// group's ranks as the job counts them.
void add_wrong(const Row& row, bool in_place, const std::vector<int>& group_ranks, Cell& cell);

}  // namespace busbar
