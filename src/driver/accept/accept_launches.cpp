#include "common/base/read_file.h"
#include "common/base/units.h"
#include "common/record/accept_json.h"
#include "driver/accept/accept_engine.h"
#include "driver/accept/accept_launcher.h"
#include "driver/accept/accept_merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

namespace busbar {
namespace {

void say(const std::string& text) {
  fmt::print(stderr, "busbar: {}\n", text);
  std::fflush(stderr);
}

bool holds(const std::vector<std::string>& ids, const AcceptStep& step) {
  return std::find(ids.begin(), ids.end(), step.id) != ids.end();
}

/// Steps by launches that one process starts, which decides and writes alone.
class LaunchedSteps : public StepRunner {
 public:
  explicit LaunchedSteps(const AcceptOptions& options) : options_(options) {}

  double agree(double mine) const override { return mine; }
  void on_root(const std::function<void()>& work) const override { work(); }

  void begin(AcceptResult& result, const std::string& results_file, bool resumed) override {
    if (resumed) take_over_part(result, results_file + ".part");
    launcher_.emplace(options_, results_file);
    launcher_->exclude(result.excluded_hosts);
    launcher_->learn(result.hosts);
  }

  std::vector<std::string> run(AcceptResult& result, const std::vector<AcceptStep>& pending, int repetition,
                               double left_s) override {
    if (repetition == 0 && !std::exchange(looked_, true) && leave_out_dead_hosts(result)) return {};
    return run_part(result, parts_of(result.plan, pending).front(), repetition, left_s);
  }

  bool can_locate(const AcceptResult& /*result*/) const override { return started_once_; }
  void locate(AcceptResult& result) override {
    run_part(result, parts_of(result.plan, {find_step(result.plan, name(Stage::pairs))}).front(), 0, 0);
  }

 private:
  /// What the launch under way had finished when we were killed.
  void take_over_part(AcceptResult& result, const std::string& part) const {
    std::error_code unknown;
    if (!std::filesystem::exists(part, unknown)) return;
    try {
      AcceptResult measured = read_accept_json(read_file(part, "a launch's results"), part);
      if (measured.plan.digest == result.plan.digest) add_part(result, std::move(measured));
    } catch (const Error&) {
      // It is measured again.
    }
  }

  /// New nodes are down: better known in seconds than by the time limit of the first part. Whether any is.
  bool leave_out_dead_hosts(AcceptResult& result) {
    StageFailure failure;
    failure.stage = result.plan.stages.empty() ? Stage::whole : result.plan.stages.front();
    failure.hosts = launcher_->hosts_that_do_not_start();
    if (failure.hosts.empty()) return false;
    failure.verdict = "HOST_UNREACHABLE";
    failure.text = fmt::format("a launch that measures nothing does not start on {}", fmt::join(failure.hosts, ", "));
    leave_out(result, failure);
    result.failures.push_back(std::move(failure));
    return true;
  }

  /// A host that died while the launch started says nothing, and nobody else knows who it is.
  void find_culprit(StageFailure& failure) {
    failure.hosts = launcher_->hosts_that_do_not_start();
    if (failure.hosts.empty()) return;
    failure.text +=
        fmt::format("; now a launch that measures nothing does not start on {}", fmt::join(failure.hosts, ", "));
  }

  /// Whether the next launches are without the hosts that the failure blames.
  bool leave_out(AcceptResult& result, const StageFailure& failure) {
    say(fmt::format("{}: {}", failure.verdict, failure.text));
    if (!launcher_->exclude(failure.hosts)) return false;
    say(fmt::format("going on without {}", fmt::join(failure.hosts, ", ")));
    result.excluded_hosts.assign(launcher_->excluded().begin(), launcher_->excluded().end());
    return true;
  }

  std::vector<std::string> run_part(AcceptResult& result, const AcceptPart& part, int repetition, double left_s) {
    AcceptLauncher::Work work{.stage = part.stage,
                              .ids = {},
                              .environment = part.environment,
                              .repetition = repetition,
                              .timeout_s = 0,
                              .left_s = left_s};
    double measuring_s = 0;
    for (const AcceptStep& step : part.steps) {
      work.ids.push_back(step.id);
      measuring_s += estimate_step_s(result.plan, step);
    }
    work.timeout_s = launch_timeout_s(result.plan, measuring_s);
    say(fmt::format("{}{}: about {}", fmt::join(work.ids, ", "),
                    repetition > 0 ? fmt::format(", repetition {}", repetition) : "", format_duration(measuring_s)));
    LaunchedPart launched = launcher_->run(work);
    std::vector<std::string> finished;
    if (launched.results) {
      started_once_ = true;
      finished = launched.results->done;
      add_part(result, std::move(*launched.results));
    }
    if (!launched.failure) return finished.empty() ? work.ids : finished;
    return fail(result, part, std::move(*launched.failure), std::move(finished));
  }

  std::vector<std::string> fail(AcceptResult& result, const AcceptPart& part, StageFailure failure,
                                std::vector<std::string> finished) {
    const auto under_way = std::find_if(part.steps.begin(), part.steps.end(),
                                        [&](const AcceptStep& step) { return !holds(finished, step); });
    if (under_way != part.steps.end() && under_way->cell >= 0) {
      failure.cell = result.plan.cells[static_cast<std::size_t>(under_way->cell)].name;
    }
    if (failure.hosts.empty() && failure.ranks.empty()) find_culprit(failure);
    const bool excluded = leave_out(result, failure);
    result.failures.push_back(std::move(failure));
    // Without its culprit the step is tried again.
    if (!excluded && under_way != part.steps.end()) finished.push_back(under_way->id);
    return finished;
  }

  const AcceptOptions& options_;
  std::optional<AcceptLauncher> launcher_;
  bool looked_ = false;        ///< for hosts that do not start
  bool started_once_ = false;  ///< some launch measured something
};

}  // namespace

ExitCode run_accept_launches(std::span<char*> args, const AcceptOptions& options) {
  LaunchedSteps launches(options);
  return run_acceptance(args, options, checked_plan(read_plan_text(options.plan_file), options), launches);
}

}  // namespace busbar
