#pragma once

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/measure/result.h"
#include "common/processes/child.h"
#include "common/record/accept_plan.h"
#include "common/record/accept_result.h"
#include "driver/formats/output_options.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What the command line of `busbar accept` says.
struct AcceptOptions {
  std::string plan_file;  ///< or the name of a shipped plan
  std::string launch;     ///< --launch; empty: this job is the one
  std::optional<int> nranks;
  std::string results;  ///< -J
  std::string json;     ///< "-" if -J is stdout; the results are kept as if there were no -J
  std::string resume;
  std::string report;
  std::string baseline;
  std::string save_baseline;
  double baseline_margin = -1;  ///< -1: the judge's own
  bool strict = false;
  bool dry_run = false;
  OutputOptions outputs;

  /// The benchmarks' options that hold for every cell: --backend, -T, --inject, --paranoid, -g, -t, --seed.
  CommandLine line;

  // For the ranks of a launch, which the launching busbar sets. ---------------------------------------------------
  std::vector<std::string> part;  ///< ids of steps; empty: the whole plan
  std::string part_results;       ///< where to leave what was measured
  int repetition = 0;             ///< of repeat_for
  double left_s = 0;              ///< of the plan's whole time; 0: no bound
};

/// The part that measures nothing: does a launch start at all?
inline constexpr std::string_view kStartOnly = "start";

/// The cell's options, overridden by those of the command line.
Config config_of(const PlanCell& cell, const AcceptOptions& options);

/// The plan in `text` under these options. Finds everything that can be wrong with it, or with them over it. Throws
/// Error(bad_config).
AcceptPlan checked_plan(const std::string& text, const AcceptOptions& options);

/// The plan's text: of the file, or if there is none, of the shipped plan of that name. Throws Error(bad_config).
std::string read_plan_text(const std::string& file);

/// What is measured once and kept. Cells of a stage share its time, so that a run cut short loses a stage at most.
struct AcceptStep {
  Stage stage = Stage::doctor;
  int cell = -1;   ///< index in the plan; -1 for doctor and pairs
  std::string id;  ///< "doctor", "pairs", "whole/all_reduce"
};

/// The plan's steps in the order of its stages.
std::vector<AcceptStep> steps_of(const AcceptPlan& plan);

/// A step of this id in the plan; throws Error(bad_config).
AcceptStep find_step(const AcceptPlan& plan, const std::string& id);

/// About how long a step measures [s], without the start of a launch.
double estimate_step_s(const AcceptPlan& plan, const AcceptStep& step);

/// Of the time left [s] what the first `own` of the steps may take: what the estimates of the others leave, or a share
/// in proportion if that is too little; 0, no bound, of 0. Pure.
double share_of(double left_s, const AcceptPlan& plan, std::span<const AcceptStep> pending, std::size_t own);

/// Steps that can share a launch, because they are of one stage and need the same environment.
struct AcceptPart {
  Stage stage = Stage::doctor;
  std::vector<AcceptStep> steps;
  EnvironmentSettings environment;
};
std::vector<AcceptPart> parts_of(const AcceptPlan& plan, const std::vector<AcceptStep>& steps);

/// What a reader must know if max-time was over before these steps.
std::string out_of_time_remark(const AcceptPlan& plan, const std::vector<AcceptStep>& late);

/// ", and up to 4 min more if a host looks slow": what the pairs may take in addition to max-time; empty: nothing.
std::string looks_allowance(const AcceptPlan& plan);

/// What --dry-run prints: steps, criteria, time.
std::string accept_dry_run(const AcceptPlan& plan, bool launches);

/// Adds what an interrupted run of the same plan measured to `result`, which has just begun.
void take_over(AcceptResult& result, AcceptResult earlier);

/// Adds a further look at the pairs. The worst finding of all looks stays, with the culprits of every look that failed,
/// so that a fault that comes and goes is not forgotten; a look that could not decide gives way to one that could.
void add_located(AcceptResult& result, AcceptResult::Located look);

/// The repetition in which a resumed run continues: the last one of which anything was measured.
int last_repetition(const AcceptResult& result);

/// Whether the resumed run has this step of this repetition already. Steps without cells (doctor, pairs) are recorded
/// for repetition 0 alone.
bool is_measured(const AcceptResult& result, const AcceptStep& step, int repetition);

/// Adds what a launch measured to the whole: hosts, cells, doctor rows, counters, finished steps.
void add_part(AcceptResult& whole, AcceptResult part);

class Job;

/// Runs the steps of a plan: all ranks of this job together, or one process that launches a job for each part. The
/// engine does everything else. All processes call the same members in the same order.
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  /// Gives all processes the answer of the one that writes, not negative. Every decision of the engine is one.
  virtual double agree(double mine) const = 0;
  /// What the process that writes does for all; if it throws, all fail alike.
  virtual void on_root(const std::function<void()>& work) const = 0;
  /// What is under way from now on, for the message of a failure and for the watchdog.
  virtual void enter(const std::string& /*step*/) {}

  /// The message if somebody interrupts from now on: what is on disk. On the process that writes.
  virtual void keep(std::string /*what*/) {}

  /// Says what runs and where; finds all that can be wrong before anything is measured.
  virtual void open(AcceptResult& /*result*/) {}
  /// On the process that writes alone, once its files are open: what an interrupted run left next to `results_file`.
  virtual void start(AcceptResult& /*result*/, const std::string& /*results_file*/, bool /*resumed*/) {}

  /// False if the plan needs what is not here.
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

/// Runs the steps of options.part in a launch, into options.part_results; the process that launched it judges.
ExitCode run_acceptance_part(std::span<char*> args, const AcceptOptions& options, AcceptPlan plan, StepRunner& runner);

/// A plan, or the steps of it that options.part names, in one job on an MPI that is up. Collective. Throws AgreedError
/// if all processes fail alike, anything else if the job must be aborted.
ExitCode run_accept_job(std::span<char*> args, const AcceptOptions& options, Job& job);

/// A plan by launches: each part in a job of its own, whose hang or crash becomes a finding with its culprit; the rest
/// continues without that host. Verdict and files are always written. Call it without an MPI. Throws Error, and
/// Interrupted, after which --resume continues.
ExitCode run_accept_launches(std::span<char*> args, const AcceptOptions& options);

/// Records in the cell of `row` with that placement which ranks hold wrong data, and which they blame. `group_ranks`:
/// the group's ranks as the job counts them.
void add_wrong(const Row& row, bool in_place, const std::vector<int>& group_ranks, Cell& cell);

/// What is known of a launch besides how it ended.
struct FailedLaunch {
  double timeout_s = 0;
  std::filesystem::file_time_type started;  ///< hang reports from then on are its own
  std::vector<std::string> hosts;           ///< of the launch, as far as known
};

/// Why a launch did not end well and who is to blame: from its hang report (hang-JOBID.json here or in the temporary
/// folder; one that its stderr names, or of a job on its hosts only), else as `busbar diagnose` reads its stderr. The
/// stage is left to the caller.
StageFailure explain_failure(const ChildResult& child, const FailedLaunch& launch);

}  // namespace busbar
