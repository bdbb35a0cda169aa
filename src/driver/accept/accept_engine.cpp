#include "driver/accept/accept_engine.h"

#include "common/base/timestamp.h"
#include "driver/accept/accept_files.h"
#include "driver/accept/accept_merge.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

namespace busbar {
namespace {

using EngineClock = std::chrono::steady_clock;

AcceptResult begin_result(std::span<char*> args, const AcceptOptions& options, AcceptPlan plan) {
  AcceptResult result;
  result.plan = std::move(plan);
  result.version = BUSBAR_VERSION;
  result.start_time = local_timestamp();
  result.command.assign(args.begin(), args.end());
  result.launch = options.launch;
  for (char** e = environ; *e != nullptr; ++e) result.environment.emplace_back(*e);
  return result;
}

/// One run; one of it lives as long. `store_` and `end_` are there on the process that writes alone, which is the only
/// one that knows the whole result: what the others do depends on agreed values.
class Acceptance {
 public:
  Acceptance(std::span<char*> args, const AcceptOptions& options, AcceptPlan plan, StepRunner& runner)
      : options_(options), runner_(runner), result_(begin_result(args, options, std::move(plan))) {}

  ExitCode run() {
    limit_s_ = result_.plan.max_time_s;
    runner_.open(result_);
    open_files();
    if (runner_.can_measure(result_)) {
      const std::vector<AcceptStep> late = run_steps(pending_in(0, steps_of(result_.plan)), 0);
      if (!late.empty()) result_.remarks.push_back(out_of_time_remark(result_.plan, late));
      repeat();
    }
    runner_.close(result_);
    return finish();
  }

  void run_part() {
    limit_s_ = options_.left_s;
    runner_.open(result_);
    runner_.on_root([&] {
      store_.emplace(AcceptStore::Part{options_.part_results});
      store_->begin(result_);
      steps_of_part();  // throws here, where all fail alike
    });
    if (runner_.can_measure(result_)) run_steps(pending_in(options_.repetition, steps_of_part()), options_.repetition);
    runner_.close(result_);
    if (!store_) return;
    result_.end_time = local_timestamp();
    store_->save(result_);
  }

 private:
  bool agree(bool mine) const { return runner_.agree(mine ? 1 : 0) != 0; }

  double elapsed_s() const { return std::chrono::duration<double>(EngineClock::now() - start_).count(); }
  double repeated_s() const { return earlier_s_ + elapsed_s(); }
  bool out_of_time() const { return limit_s_ > 0 && agree(elapsed_s() >= limit_s_); }
  /// 0: no bound.
  double left_s() const { return limit_s_ > 0 ? runner_.agree(std::max(0.1, limit_s_ - elapsed_s())) : 0; }

  void say(const std::string& text) const {
    if (!store_) return;
    fmt::print(stderr, "busbar: {}\n", text);
    std::fflush(stderr);
  }

  void open_files() {
    runner_.on_root([&] {
      end_.emplace(options_, result_);
      store_.emplace(options_.results.empty() ? "busbar-accept.json" : options_.results, options_.resume);
      std::optional<AcceptResult> earlier = store_->earlier(result_.plan);
      const bool resumed = earlier.has_value();
      if (resumed) take_over(result_, std::move(*earlier));
      earlier_s_ = result_.elapsed_s;
      runner_.begin(result_, store_->path(), resumed);
      store_->begin(result_);
      say(fmt::format("results: {0} (--resume {0} goes on after an interruption)", store_->path()));
    });
  }

  std::vector<AcceptStep> steps_of_part() const {
    std::vector<AcceptStep> steps;
    for (const std::string& id : options_.part) {
      if (id != kStartOnly) steps.push_back(find_step(result_.plan, id));
    }
    return steps;
  }

  /// Those of `steps` that a resumed run has not measured in this repetition; nodes are looked at once.
  std::vector<AcceptStep> pending_in(int repetition, const std::vector<AcceptStep>& steps) const {
    std::vector<AcceptStep> pending;
    for (const AcceptStep& step : steps) {
      if (repetition > 0 && step.stage == Stage::doctor) continue;
      if (!agree(is_measured(result_, step, repetition))) pending.push_back(step);
    }
    return pending;
  }

  /// Those for which there was no time.
  std::vector<AcceptStep> run_steps(std::vector<AcceptStep> pending, int repetition) {
    while (!pending.empty() && !out_of_time()) {
      const std::vector<std::string> finished = runner_.run(result_, pending, repetition, left_s());
      std::erase_if(pending, [&](const AcceptStep& step) {
        return std::find(finished.begin(), finished.end(), step.id) != finished.end();
      });
      result_.elapsed_s = repeated_s();
      if (!store_) continue;
      if (repetition == 0) {
        store_->save(result_);
      } else {
        store_->save_at_times(result_);
      }
    }
    return pending;
  }

  /// Known on the process that writes.
  std::size_t measurements() const {
    return result_.cells.size() + static_cast<std::size_t>(result_.located ? result_.located->looks : 0);
  }

  void repeat() {
    const double repeat_for_s = result_.plan.repeat_for_s;
    const int first = std::max(1, static_cast<int>(runner_.agree(last_repetition(result_))));
    for (int repetition = first; agree(repeated_s() < repeat_for_s) && !out_of_time(); ++repetition) {
      const std::size_t before = measurements();
      const std::vector<AcceptStep> pending = pending_in(repetition, steps_of(result_.plan));
      run_steps(pending, repetition);
      const bool was_complete = pending.empty() && repetition == first;  // where the earlier run was interrupted
      // Nothing starts any more, or there is nothing to measure: the same for hours tells no more.
      if (!was_complete && !agree(measurements() > before)) break;
    }
  }

  ExitCode finish() {
    runner_.enter("judging");
    bool look = false;
    runner_.on_root([&] {
      result_.end_time = local_timestamp();
      end_->judge(result_);
      look = result_.outcome == Outcome::fail && result_.plan.locate_on_fail && !result_.located;
    });
    if (agree(look) && runner_.can_locate(result_)) {
      say("a criterion failed: looking for the culprit");
      // However much of max-time is left: without it nobody knows what to replace.
      runner_.locate(result_);
      runner_.on_root([&] { end_->judge(result_); });
    }
    runner_.enter("writing results");
    ExitCode code = ExitCode::good;
    runner_.on_root([&] {
      result_.end_time = local_timestamp();
      store_->save(result_);
      code = end_->finish(result_, store_->path());
    });
    return static_cast<ExitCode>(static_cast<int>(runner_.agree(static_cast<double>(code))));
  }

  const AcceptOptions& options_;
  StepRunner& runner_;
  EngineClock::time_point start_ = EngineClock::now();
  double earlier_s_ = 0;  ///< of the runs that this one resumes; on the process that writes
  double limit_s_ = 0;    ///< of this run; 0: no bound
  AcceptResult result_;
  std::optional<AcceptEnd> end_;
  std::optional<AcceptStore> store_;
};

}  // namespace

ExitCode run_acceptance(std::span<char*> args, const AcceptOptions& options, AcceptPlan plan, StepRunner& runner) {
  return Acceptance(args, options, std::move(plan), runner).run();
}

ExitCode run_acceptance_part(std::span<char*> args, const AcceptOptions& options, AcceptPlan plan, StepRunner& runner) {
  Acceptance(args, options, std::move(plan), runner).run_part();
  return ExitCode::good;
}

}  // namespace busbar
