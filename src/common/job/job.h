#pragma once

#include "common/backends/open_backend.h"
#include "common/base/error.h"
#include "common/measure/injected_backend.h"
#include "common/measure/result.h"
#include "common/measure/timed_loop.h"
#include "common/processes/comm.h"
#include "common/watch/watchdog.h"

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// Wraps a backend: the fault tests break it this way.
using WrapBackend = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)>;

/// A backend that the job's --inject and watchdog know.
struct JobBackend : OpenedBackend {
  std::shared_ptr<void> watched;  // goes before the backend
};

/// What a job has between MPI's start and end: its processes, the step under way, the watchdog and the fault to inject.
/// Benchmarks, compare, locate and accept all open their ranks and leave through it.
class Job {
 public:
  /// `oversubscribed`: the header's sentence about too few cores, `carried`: that about a job without MPI; or empty.
  Job(const Comm& world, std::string oversubscribed, Watchdog& watchdog, std::string carried = {});

  const Comm& world() const { return world_; }
  Watchdog& watchdog() const { return watchdog_; }
  const std::string& oversubscribed() const { return oversubscribed_; }
  /// Whether this is the process that prints and writes.
  bool is_root() const { return world_.rank() == 0; }

  /// Sets the step under way, for the message of a failure and for the watchdog.
  void begin_step(Phase phase, std::string step);
  /// The same for the message alone, if others inform the watchdog.
  void set_step(std::string step);
  const std::string& step() const { return *under_way_; }

  /// Applies --hang-timeout and --inject before anything is opened. A dry run breaks nothing. Collective.
  void configure(const Config& config);
  const Injector& injector() const { return injector_; }

  /// Opens the backend on `group`, a part of the world, and checks that --inject can break something in each of the
  /// collectives. Collective over the world; throws AgreedError.
  JobBackend open(const Config& config, const Comm& group, std::span<const Collective* const> collectives,
                  const WrapBackend& wrap = {});
  /// Adds another communicator; null stays null.
  JobBackend adopt(std::unique_ptr<Backend> backend) const;

  /// What the header must say about --inject, MPI's defects, --paranoid and watchers that cannot connect.
  std::vector<std::string> remarks(const Config& config) const;
  /// Adds our header lines, in order: the backend's, too few cores, remarks(), `own`, --topology. Collective.
  void add_remarks(RunInfo& info, const Config& config, std::vector<std::string> of_backend,
                   std::vector<std::string> own = {}) const;

  /// Reports what failed, with rank, host and step, and ends the whole job, from any thread.
  [[noreturn]] void end(std::exception_ptr failure);
  /// end() for lanes that fail in their own thread.
  FailJob fail();
  /// Runs work that names its own steps; `step` is under way meanwhile. If `work` throws, the backends are aborted
  /// before the exception passes on.
  void guarded(const std::string& step, std::span<Backend* const> backends, const std::function<void()>& work);

  /// Process 0 alone reads or writes files now, for minutes if their file system is slow; the others wait.
  void begin_files(std::string_view step) {
    if (is_root()) watchdog_.begin_step(Phase::output, step);
  }

  /// For writers of results: sets what is kept of them if the job is interrupted.
  std::function<void(std::string)> report_kept() const {
    return [this](std::string what) { watchdog_.set_kept(std::move(what)); };
  }

  /// The exit code of all. Only process 0 writes; if its output is incomplete, a good code becomes results_lost.
  /// Only freeing what was opened and MPI_Finalize may hang afterwards, within limits. Collective.
  ExitCode agreed_code(ExitCode code, bool complete) const;

 private:
  void let_others_explain() const;

  const Comm& world_;
  std::string oversubscribed_;
  std::string carried_;
  Watchdog& watchdog_;
  Injector injector_;
  std::string step_ = "starting";
  const std::string* under_way_ = &step_;
};

/// Seed, cadence and estimand of the statistical mode, into `info`. Collective.
void describe_sampling(RunInfo& info, const Comm& world, const Config& config, const Backend& backend);

/// The collective's traffic, the same on every process: rank 0 reads the matrix file. Collective.
Traffic agree_on_traffic(const Comm& world, const Collective& collective, const Config& config);

/// The smallest memory of any process, with that process's arithmetic. Collective.
Backend::MemoryLimit least_memory(const Comm& world, const Backend& backend, const Collective& collective);

/// The plan, checked to be the same on all of `group`. Collective over `world`.
Plan agree_on_plan(const Comm& world, const Comm& group, const Config& config, const Collective& collective,
                   const Backend& backend, const Traffic& traffic, const Backend::MemoryLimit& limit);

/// This process's ranks, numbered over the whole job.
std::vector<RankInfo> describe_local_ranks(const Backend& backend, const Comm& world, int color);

/// What header and JSON say about a job, whatever it runs; complete on process 0. Collective.
RunInfo describe_job(std::span<char*> args, std::string program, const Config& config, const Backend& backend,
                     const std::vector<RankInfo>& local_ranks, const Comm& world);

/// The same for a benchmark. Collective.
RunInfo describe_run(std::span<char*> args, const Collective& collective, const Config& config, const Backend& backend,
                     const Plan& plan, const std::vector<RankInfo>& local_ranks, const Comm& world);

/// The largest of each amount over the processes (-M). Collective.
std::vector<Backend::MemoryUse> largest_memory_use(const Comm& world, const Backend& backend);

}  // namespace busbar
