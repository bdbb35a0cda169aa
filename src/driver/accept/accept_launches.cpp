#include "driver/accept/accept_launches.h"

#include "common/base/read_file.h"
#include "common/base/timestamp.h"
#include "common/base/units.h"
#include "common/output/terminal_line.h"
#include "common/record/accept_json.h"
#include "driver/accept/accept_finish.h"
#include "driver/accept/accept_launcher.h"
#include "driver/accept/accept_merge.h"
#include "driver/accept/accept_steps.h"
#include "driver/accept/accept_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

namespace busbar {
namespace {

void say(const std::string& text) {
  fmt::print(stderr, "busbar: {}\n", text);
  std::fflush(stderr);
}

AcceptResult begin_result(std::span<char*> args, const AcceptOptions& options) {
  AcceptResult result;
  result.plan = checked_plan(read_plan_text(options.plan_file), options);
  result.version = BUSBAR_VERSION;
  result.start_time = local_timestamp();
  result.command.assign(args.begin(), args.end());
  result.launch = options.launch;
  for (char** e = environ; *e != nullptr; ++e) result.environment.emplace_back(*e);
  return result;
}

/// The whole run; one of it lives as long.
class Launches {
 public:
  Launches(std::span<char*> args, const AcceptOptions& options)
      : options_(options),
        result_(begin_result(args, options)),
        end_(options, result_),
        store_(options.results.empty() ? "busbar-accept.json" : options.results, options.resume) {
    if (std::optional<AcceptResult> earlier = store_.earlier(result_.plan)) {
      take_over(result_, std::move(*earlier));
      take_over_part();
      earlier_s_ = result_.elapsed_s;
    }
    launcher_.emplace(options, store_.path());
    launcher_->exclude(result_.excluded_hosts);
    launcher_->learn(result_.hosts);
    store_.begin(result_);
    say(fmt::format("results: {0} (--resume {0} goes on after an interruption)", store_.path()));
  }

  ExitCode run() {
    std::vector<AcceptStep> pending = steps_of(result_.plan);
    std::erase_if(pending, [&](const AcceptStep& step) { return is_done(step.id); });
    if (!pending.empty()) leave_out_dead_hosts();
    run_steps(pending, 0);
    const int first = std::max(1, last_repetition(result_));
    for (int repetition = first; repeated_s() < result_.plan.repeat_for_s && !out_of_time(); ++repetition) {
      std::vector<AcceptStep> again = steps_of(result_.plan);
      std::erase_if(again, [&](const AcceptStep& step) {
        return step.stage == Stage::doctor || is_measured(result_, step, repetition);
      });
      if (again.empty()) continue;
      const std::size_t before = result_.cells.size();
      run_steps(std::move(again), repetition);
      if (result_.cells.size() == before) break;  // nothing starts any more: the same failure for hours tells no more
    }
    result_.end_time = local_timestamp();
    end_.judge(result_);
    const bool look = result_.outcome == Outcome::fail && result_.plan.locate_on_fail && !result_.located;
    if (look && started_once_) {
      say("a criterion failed: looking for the culprit");
      // As in one job, however much of max-time is left: without it nobody knows what to replace.
      run_part(parts_of(result_.plan, {find_step(result_.plan, name(Stage::pairs))}).front(), 0);
      end_.judge(result_);
    }
    result_.end_time = local_timestamp();
    store_.save(result_);
    return end_.finish(result_, store_.path());
  }

 private:
  double elapsed_s() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  double repeated_s() const { return earlier_s_ + elapsed_s(); }
  double left_s() const { return result_.plan.max_time_s > 0 ? result_.plan.max_time_s - elapsed_s() : 0; }
  bool out_of_time() const { return result_.plan.max_time_s > 0 && left_s() <= 0; }
  bool is_done(const std::string& id) const {
    return std::find(result_.done.begin(), result_.done.end(), id) != result_.done.end();
  }

  /// What the launch under way had finished when we were killed.
  void take_over_part() {
    const std::string part = store_.path() + ".part";
    std::error_code unknown;
    if (!std::filesystem::exists(part, unknown)) return;
    try {
      AcceptResult measured = read_accept_json(read_file(part, "a launch's results"), part);
      if (measured.plan.digest == result_.plan.digest) add_part(result_, std::move(measured));
    } catch (const Error&) {
      // It is measured again.
    }
  }

  /// New nodes are down: better known in seconds than by the time limit of the first part.
  void leave_out_dead_hosts() {
    StageFailure failure;
    failure.stage = result_.plan.stages.empty() ? Stage::whole : result_.plan.stages.front();
    failure.hosts = launcher_->hosts_that_do_not_start();
    if (failure.hosts.empty()) return;
    failure.verdict = "HOST_UNREACHABLE";
    failure.text = fmt::format("a launch that measures nothing does not start on {}", fmt::join(failure.hosts, ", "));
    leave_out(failure);
    result_.failures.push_back(std::move(failure));
    store_.save(result_);
  }

  /// A host that died while the launch started says nothing, and nobody else knows who it is.
  void find_culprit(StageFailure& failure) {
    failure.hosts = launcher_->hosts_that_do_not_start();
    if (failure.hosts.empty()) return;
    failure.text +=
        fmt::format("; now a launch that measures nothing does not start on {}", fmt::join(failure.hosts, ", "));
  }

  /// Whether the next launches are without the hosts that the failure blames.
  bool leave_out(const StageFailure& failure) {
    say(fmt::format("{}: {}", failure.verdict, failure.text));
    if (!launcher_->exclude(failure.hosts)) return false;
    say(fmt::format("going on without {}", fmt::join(failure.hosts, ", ")));
    result_.excluded_hosts.assign(launcher_->excluded().begin(), launcher_->excluded().end());
    return true;
  }

  void run_steps(std::vector<AcceptStep> pending, int repetition) {
    while (!pending.empty() && !out_of_time()) {
      const AcceptPart part = parts_of(result_.plan, pending).front();
      const std::vector<std::string> finished = run_part(part, repetition);
      // Each time round a step is finished or given up, or a host is left out: it ends.
      std::erase_if(pending, [&](const AcceptStep& step) {
        return std::find(finished.begin(), finished.end(), step.id) != finished.end();
      });
      result_.elapsed_s = repeated_s();
      if (repetition == 0) {
        store_.save(result_);
      } else {
        store_.save_at_times(result_);
      }
    }
    if (pending.empty() || repetition > 0) return;
    std::vector<std::string> late;
    for (const AcceptStep& step : pending) late.push_back(step.id);
    result_.remarks.push_back(out_of_time_remark(result_.plan, late));
  }

  /// The ids of the steps that need not be tried again.
  std::vector<std::string> run_part(const AcceptPart& part, int repetition) {
    AcceptLauncher::Work work{.stage = part.stage,
                              .ids = {},
                              .environment = part.environment,
                              .repetition = repetition,
                              .timeout_s = 0,
                              .left_s = std::max(0.0, left_s())};
    double measuring_s = 0;
    for (const AcceptStep& step : part.steps) {
      work.ids.push_back(step.id);
      measuring_s += estimate_step_s(result_.plan, step);
    }
    work.timeout_s = launch_timeout_s(result_.plan, measuring_s);
    say(fmt::format("{}{}: about {}", fmt::join(work.ids, ", "),
                    repetition > 0 ? fmt::format(", repetition {}", repetition) : "", format_duration(measuring_s)));
    LaunchedPart launched = launcher_->run(work);
    std::vector<std::string> finished;
    if (launched.results) {
      started_once_ = true;
      finished = launched.results->done;
      add_part(result_, std::move(*launched.results));
    }
    if (!launched.failure) return finished.empty() ? work.ids : finished;
    return fail(part, std::move(*launched.failure), std::move(finished));
  }

  std::vector<std::string> fail(const AcceptPart& part, StageFailure failure, std::vector<std::string> finished) {
    const auto under_way = std::find_if(part.steps.begin(), part.steps.end(), [&](const AcceptStep& step) {
      return std::find(finished.begin(), finished.end(), step.id) == finished.end();
    });
    if (under_way != part.steps.end() && under_way->cell >= 0) {
      failure.cell = result_.plan.cells[static_cast<std::size_t>(under_way->cell)].name;
    }
    if (failure.hosts.empty() && failure.ranks.empty()) find_culprit(failure);
    const bool excluded = leave_out(failure);
    result_.failures.push_back(std::move(failure));
    // Without its culprit the step is tried again.
    if (!excluded && under_way != part.steps.end()) finished.push_back(under_way->id);
    return finished;
  }

  const AcceptOptions& options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double earlier_s_ = 0;  ///< of the runs that this one resumes
  AcceptResult result_;
  AcceptEnd end_;
  AcceptStore store_;
  std::optional<AcceptLauncher> launcher_;
  bool started_once_ = false;
};

}  // namespace

ExitCode run_accept_launches(std::span<char*> args, const AcceptOptions& options) {
  Launches launches(args, options);
  return launches.run();
}

}  // namespace busbar
