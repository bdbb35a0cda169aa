#include "driver/accept/accept_job.h"

#include "common/base/timestamp.h"
#include "common/mpi/collectively.h"
#include "driver/accept/accept_cell.h"
#include "driver/accept/accept_finish.h"
#include "driver/accept/accept_hosts.h"
#include "driver/accept/accept_locate.h"
#include "driver/accept/accept_merge.h"
#include "driver/accept/accept_network.h"
#include "driver/accept/accept_steps.h"
#include "driver/accept/accept_store.h"
#include "driver/accept/read_accept_plan.h"
#include "driver/doctor/doctor_gather.h"
#include "driver/locate/locate_counters.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

namespace busbar {
namespace {

/// Process 0's answer, for all. Collective.
bool agreed(const Comm& world, bool mine) { return world.max(std::int64_t{world.rank() == 0 && mine}) != 0; }
double agreed(const Comm& world, double mine) { return world.max(world.rank() == 0 ? mine : 0); }

AcceptPlan agree_on_accept_plan(const Comm& world, const AcceptOptions& options) {
  std::string text;
  on_process0(world, [&] { text = read_plan_text(options.plan_file); });
  text = world.broadcast(text, 0);
  return collectively_get(world, "reading the plan", [&] { return checked_plan(text, options); });
}

AcceptResult begin_result(std::span<char*> args, const AcceptPlan& plan) {
  AcceptResult result;
  result.plan = plan;
  result.version = BUSBAR_VERSION;
  result.start_time = local_timestamp();
  result.command.assign(args.begin(), args.end());
  for (char** e = environ; *e != nullptr; ++e) result.environment.emplace_back(*e);
  return result;
}

/// One job; one of it lives as long as the job.
class RankJob {
 public:
  RankJob(std::span<char*> args, const AcceptOptions& options, Job& job)
      : options_(options),
        job_(job),
        world_(job.world()),
        plan_(agree_on_accept_plan(world_, options)),
        result_(begin_result(args, plan_)),
        context_{job, plan_, options, is_part()} {
    if (!job.oversubscribed().empty()) result_.remarks.push_back(job.oversubscribed());
  }

  ExitCode run() {
    open();
    const std::vector<AcceptStep> steps = steps_to_do();
    const SearchCounters counters(world_);
    if (can_measure()) {
      const int first =
          is_part() ? options_.repetition : static_cast<int>(world_.max(std::int64_t{last_repetition(result_)}));
      for (int repetition = first; repetition == first || again(); ++repetition) {
        for (const AcceptStep& step : steps) do_step(step, repetition);
      }
    }
    job_.begin(Phase::finishing, "reading error counters");
    look_at_counters(counters);
    return is_part() ? finish_part() : finish();
  }

 private:
  bool is_part() const { return !options_.part.empty(); }
  bool speaks() const { return world_.rank() == 0; }
  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double repeated_s() const { return earlier_s_ + elapsed_s(); }

  /// Files, hosts, backend: everything that can be wrong is found before anything is measured.
  void open() {
    Config config = plan_.cells.empty() ? Config{} : plan_.cells.front().config;
    Config of_all;  // --hang-timeout and --inject are the command line's alone
    for (Config* each : {&config, &of_all}) {
      for (const Setting& setting : options_.line.settings) setting.option->set(*each, setting.text);
    }
    job_.configure(of_all);
    {
      std::vector<const Collective*> collectives;
      for (const PlanCell& cell : plan_.cells) collectives.push_back(cell.collective);
      const OpenedJobBackend opened = job_.open(config, world_, collectives);
      backend_ = &opened.backend->traits();
      result_.backend = backend_->name;
      result_.library = opened.backend->library_version();
      result_.hosts = describe_hosts(world_, *opened.backend);
      result_.remarks.insert(result_.remarks.end(), opened.remarks.begin(), opened.remarks.end());
    }
    for (std::string& remark : job_.remarks(config)) result_.remarks.push_back(std::move(remark));
    const std::vector<std::string> domains = on_gpus() ? nvlink_domains(world_) : std::vector<std::string>{};
    on_process0(world_, [&] {
      result_.network = result_.hosts.size() > 1 ? network_of(probe_this_machine(), domains) : "";
      if (is_part()) {
        store_ = std::make_unique<AcceptStore>(AcceptStore::Part{options_.part_results});
      } else {
        end_ = std::make_unique<AcceptEnd>(options_, result_);
        store_ = std::make_unique<AcceptStore>(options_.results.empty() ? "busbar-accept.json" : options_.results,
                                               options_.resume);
        if (std::optional<AcceptResult> earlier = store_->earlier(plan_)) take_over(result_, std::move(*earlier));
        earlier_s_ = result_.elapsed_s;
        fmt::print(stderr, "busbar: results: {} (--resume {} goes on after an interruption)\n", store_->path(),
                   store_->path());
      }
      store_->begin(result_);
    });
  }

  std::vector<AcceptStep> steps_to_do() const {
    if (!is_part()) return steps_of(plan_);
    return collectively_get(world_, "reading --part", [&] {
      std::vector<AcceptStep> steps;
      for (const std::string& id : options_.part) {
        if (id != kStartOnly) steps.push_back(find_step(plan_, id));
      }
      return steps;
    });
  }

  /// A plan that expects GPUs fails on host memory: there is nothing to measure then.
  bool can_measure() const { return agreed(world_, !plan_.needs_gpus || on_gpus()); }

  bool on_gpus() const { return backend_->memory == MemoryKind::gpu; }

  bool again() const { return agreed(world_, !is_part() && repeated_s() < plan_.repeat_for_s); }

  double limit_s() const { return is_part() ? options_.left_s : plan_.max_time_s; }

  /// 0: no bound.
  double left_s() const { return limit_s() > 0 ? agreed(world_, std::max(0.1, limit_s() - elapsed_s())) : 0; }

  bool out_of_time() const { return agreed(world_, limit_s() > 0 && elapsed_s() >= limit_s()); }

  void do_step(const AcceptStep& step, int repetition) {
    if (agreed(world_, is_measured(result_, step, repetition))) return;
    if (out_of_time()) {
      late_.push_back(step.id);
      return;
    }
    if (repetition > 0 && step.stage == Stage::doctor) return;
    tell(fmt::format("{}{}", step.id, repetition > 0 ? fmt::format(", repetition {}", repetition) : ""));
    if (step.stage == Stage::doctor) {
      job_.begin(Phase::initialization, "doctor");
      result_.doctor = gather_doctor(world_);
    } else if (step.stage == Stage::pairs) {
      add_located(result_, locate_pairs(context_));
    } else {
      CellResults measured = measure(plan_.cells.at(static_cast<std::size_t>(step.cell)), step.stage, repetition);
      std::move(measured.cells.begin(), measured.cells.end(), std::back_inserter(result_.cells));
      if (repetition == 0) {
        std::move(measured.skipped.begin(), measured.skipped.end(), std::back_inserter(result_.skipped));
      }
    }
    job_.watchdog().rest();
    if (!speaks()) return;
    if (repetition == 0 || is_part()) result_.done.push_back(step.id);
    result_.elapsed_s = repeated_s();
    if (repetition == 0) {
      store_->save(result_);
    } else {
      store_->save_at_times(result_);
    }
  }

  CellResults measure(const PlanCell& cell, Stage stage, int repetition) {
    // Every process opened the same backend.
    const std::string why = why_not_here(cell, *backend_);
    if (why.empty()) return measure_cell(context_, cell, stage, repetition, left_s());
    CellResults skipped;
    skipped.skipped.push_back({cell.name, stage, "all", "", "", why});
    return skipped;
  }

  void look_at_counters(const SearchCounters& counters) {
    std::vector<DoctorRow> moved = counters.moved();
    std::move(moved.begin(), moved.end(), std::back_inserter(result_.counters));
    result_.counters_read = true;
  }

  ExitCode finish_part() {
    if (speaks()) {
      result_.end_time = local_timestamp();
      store_->save(result_);
    }
    return ExitCode::good;  // what launched us judges
  }

  ExitCode finish() {
    job_.begin(Phase::finishing, "judging");
    bool look = false;
    on_process0(world_, [&] {
      result_.end_time = local_timestamp();
      if (!late_.empty()) result_.remarks.push_back(out_of_time_remark(plan_, late_));
      end_->judge(result_);
      look = result_.outcome == Outcome::fail && plan_.locate_on_fail && !result_.located;
    });
    if (agreed(world_, look) && can_measure() && world_.size() > 1) {
      tell("a criterion failed: looking for the culprit");
      add_located(result_, locate_pairs(context_));
      on_process0(world_, [&] { end_->judge(result_); });
    }
    job_.watchdog().begin(Phase::finishing, "writing results");
    ExitCode code = ExitCode::good;
    on_process0(world_, [&] {
      result_.end_time = local_timestamp();
      store_->save(result_);
      code = end_->finish(result_, store_->path());
    });
    job_.watchdog().rest();
    return static_cast<ExitCode>(static_cast<int>(agreed(world_, static_cast<double>(code))));
  }

  void tell(const std::string& text) const {
    if (speaks() && !is_part()) {
      fmt::print(stderr, "busbar: {}\n", text);
      std::fflush(stderr);
    }
  }

  const AcceptOptions& options_;
  Job& job_;
  const Comm& world_;
  Clock::time_point start_ = Clock::now();
  double earlier_s_ = 0;  ///< of the runs that this one resumes; on process 0
  AcceptPlan plan_;
  AcceptResult result_;
  const BackendTraits* backend_ = nullptr;  ///< from open() on
  AcceptJobContext context_;
  std::vector<std::string> late_;       ///< steps for which there was no time
  std::unique_ptr<AcceptEnd> end_;      ///< on process 0, but for a part
  std::unique_ptr<AcceptStore> store_;  ///< on process 0
};

}  // namespace

ExitCode run_accept_job(std::span<char*> args, const AcceptOptions& options, Job& job) {
  RankJob ranks(args, options, job);
  return ranks.run();
}

}  // namespace busbar
