#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/say.h"
#include "common/base/units.h"
#include "common/output/report_file.h"
#include "common/processes/child.h"
#include "common/record/accept_result.h"
#include "driver/accept/accept_engine.h"
#include "driver/launch/launching.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace busbar {
namespace {

/// How one launch ended.
struct LaunchedPart {
  std::optional<AcceptResult> results;  ///< as far as it came
  std::optional<StageFailure> failure;  ///< nothing: it ended well
};

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kCountOptions{"-n", "-np", "--np", "-c", "--ntasks"};

/// Where the command states the number of ranks.
std::size_t count_word(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i + 1 < words.size() && words[i] != "{cmd}"; ++i) {
    if (contains(kCountOptions, words[i])) return i + 1;
  }
  return words.size();
}

/// Time for one launch, after which it is killed [s]. `left_s`: that its cells' epochs may take; 0: their own limits.
double launch_timeout_s(const AcceptPlan& plan, const AcceptPart& part, double measuring_s, double left_s) {
  // Many times what measuring should take: the job's own watchdog names a culprit earlier.
  constexpr double kLeast = 180;
  const double looks_s = part.stage == Stage::pairs ? plan.locate_looks_s : 0;
  double most_s = left_s;
  for (const AcceptStep& step : part.steps) {
    if (left_s <= 0 && step.cell >= 0) most_s += plan.cells[static_cast<std::size_t>(step.cell)].config.max_time_s;
  }
  return looks_s + (plan.stage_timeout_s > 0 ? plan.stage_timeout_s : kLeast + std::max(5 * measuring_s, most_s));
}

/// Steps by launches that one process starts by the user's command on hosts not excluded. It decides and writes alone.
class LaunchedSteps : public StepRunner {
 public:
  explicit LaunchedSteps(const AcceptOptions& options) : options_(options) {}
  LaunchedSteps(const LaunchedSteps&) = delete;
  LaunchedSteps& operator=(const LaunchedSteps&) = delete;
  ~LaunchedSteps() override {
    std::error_code ignored;
    fs::remove(part_file_, ignored);
    fs::remove(host_file_, ignored);
  }

  double agree(double mine) const override { return mine; }
  void on_root(const std::function<void()>& work) const override { work(); }

  /// Throws Error(bad_config) for a command that cannot be filled in.
  void start(AcceptResult& result, const std::string& results_file, bool resumed) override {
    if (resumed) take_over_part(result, results_file + ".part");
    if (results_file.empty()) folder_.emplace();
    const std::string results = fs::absolute(folder_ ? folder_->file("results") : results_file).string();
    words_ = split_command(options_.launch);
    if (words_.empty()) throw_bad_config("--launch is empty; give it a command such as \"mpirun -n 16\"");
    hosts_ = launch_hosts(words_);
    const std::size_t count = count_word(words_);
    if (options_.nranks) {
      nranks_ = *options_.nranks;
    } else if (count < words_.size() && words_[count] != "{ranks}") {
      nranks_ = positive_or(words_[count], 0);
    } else {
      for (const LaunchHost& host : hosts_) nranks_ += host.slots;
    }
    command({}, 0, 0, {});  // a command that cannot be filled in is an error now
    part_file_ = results + ".part";
    host_file_ = results + ".hosts";
    exclude(result.excluded_hosts);
    seen_ = result.hosts;
  }

  std::vector<std::string> run(AcceptResult& result, const std::vector<AcceptStep>& pending, int repetition,
                               double left_s) override {
    if (repetition == 0 && !std::exchange(looked_, true) && leave_out_dead_hosts(result)) return {};
    const AcceptPart part = parts_of(result.plan, pending).front();
    return run_part(result, part, repetition, share_of(left_s, result.plan, pending, part.steps.size()));
  }

  bool can_locate(const AcceptResult& /*result*/) const override { return started_once_; }
  void locate(AcceptResult& result) override {
    run_part(result, parts_of(result.plan, {find_step(result.plan, name(Stage::pairs))}).front(), 0, 0);
  }

 private:
  /// Takes over what a launch had finished when it, or this process, was cut short.
  void take_over_part(AcceptResult& result, const std::string& part) const {
    std::error_code unknown;
    if (!fs::exists(part, unknown)) return;
    try {
      AcceptResult measured = read_accept_json(read_file(part, "a launch's results"), part);
      if (measured.plan.digest == result.plan.digest) add_part(result, std::move(measured));
    } catch (const Error&) {
      // It is measured again.
    }
  }

  std::vector<std::string> command(const AcceptPart& part, int repetition, double left_s,
                                   const std::set<std::string>& excluded) const {
    // A plan's file is found from any directory, a shipped plan by its name.
    std::error_code unknown;
    const std::string& plan = options_.plan_file;
    std::vector<std::string> program = environment_words(part.environment);
    program.insert(program.end(), {program_beside("busbar").string(), "accept",
                                   fs::exists(plan, unknown) ? fs::absolute(plan, unknown).string() : plan,
                                   fmt::format("--part={}", fmt::join(mapped(part.steps, &AcceptStep::id), ",")),
                                   "--part-results=" + part_file_, fmt::format("--repetition={}", repetition)});
    if (left_s > 0) program.push_back(fmt::format("--left={:.0f}", std::max(1.0, left_s)));
    for (std::string& word : option_words(options_.line.settings)) program.push_back(std::move(word));

    int nranks = nranks_;
    for (const std::string& host : excluded) nranks -= ranks_on(host);
    ReducedLaunch reduced = without_hosts(words_, excluded, host_file_);
    if (!reduced.hostfile_text.empty()) replace_file(host_file_, reduced.hostfile_text);
    const std::size_t count = count_word(reduced.words);
    const bool is_written = count < reduced.words.size() && positive_or(reduced.words[count], 0) > 0;
    if (!excluded.empty() && is_written && nranks > 0) reduced.words[count] = std::to_string(nranks);
    return launch_command(join_for_shell(reduced.words), nranks > 0 ? std::optional(nranks) : std::nullopt, program);
  }

  int ranks_on(const std::string& host) const {
    const auto seen = std::ranges::find(seen_, host, &AcceptResult::Host::name);
    if (seen != seen_.end()) return static_cast<int>(seen->ranks.size());
    const auto named = std::ranges::find(hosts_, host, &LaunchHost::name);
    if (named == hosts_.end()) return 0;
    int slots = 0;
    for (const LaunchHost& h : hosts_) slots += h.slots;
    // By default as many ranks as slots; else in proportion.
    return nranks_ == 0 ? named->slots : std::max(1, nranks_ * named->slots / std::max(slots, 1));
  }

  /// Throws Error if the launcher cannot be started at all, Interrupted.
  LaunchedPart launch(const AcceptPart& work, int repetition, double timeout_s, double left_s) {
    std::error_code ignored;
    fs::remove(part_file_, ignored);
    const auto started = fs::file_time_type::clock::now();
    const ChildResult child = launch_child(command(work, repetition, left_s, excluded_), timeout_s);
    LaunchedPart part;
    std::string unreadable;
    if (fs::exists(part_file_, ignored)) {
      try {
        part.results = read_accept_json(read_file(part_file_, "a launch's results"), "a launch's results");
        seen_ = part.results->hosts;
      } catch (const Error& e) {
        unreadable = e.what();
      }
    }
    if (child.good() && part.results) return part;
    std::vector<std::string> known = mapped(hosts_, &LaunchHost::name);
    for (const AcceptResult::Host& host : seen_) known.push_back(host.name);
    part.failure = explain_failure(child, {.timeout_s = timeout_s, .started = started, .hosts = known});
    part.failure->stage = work.stage;
    for (const AcceptResult::Host& host : seen_) {
      const auto is_here = [&](int rank) { return contains(host.ranks, rank); };
      if (std::ranges::any_of(part.failure->ranks, is_here)) add_once(part.failure->hosts, host.name);
    }
    if (child.good()) part.failure->text = unreadable.empty() ? kNoResultsHere : unreadable;
    return part;
  }

  /// Leaves these hosts out from now on; false if the command has no way to do so.
  bool exclude(const std::vector<std::string>& hosts) {
    if (hosts.empty() || !can_exclude(words_)) return false;
    const bool is_named = !hosts_.empty();
    bool changed = false;
    for (const std::string& host : hosts) {
      const bool known = std::ranges::any_of(hosts_, [&](const LaunchHost& h) { return names_same(h.name, host); });
      if (!is_named || known) changed = excluded_.insert(host).second || changed;
    }
    // At least one host must be left.
    if (changed && is_named && excluded_.size() >= hosts_.size()) {
      for (const std::string& host : hosts) excluded_.erase(host);
      return false;
    }
    return changed;
  }

  /// Hosts on which not even a launch that measures nothing starts, found by halving; empty if all start together, if
  /// nothing starts at all, or if the command names no hosts: the first part's launch then shows it.
  std::vector<std::string> hosts_that_do_not_start() {
    std::vector<std::string> hosts = mapped(hosts_, &LaunchHost::name);
    std::erase_if(hosts, [&](const std::string& host) { return excluded_.contains(host); });
    if (hosts.size() < 2) return {};
    std::vector<std::string> dead;
    find_dead(hosts, dead);
    // If nothing starts at all, it is the command and not the hosts.
    return dead.size() == hosts.size() ? std::vector<std::string>{} : dead;
  }

  void find_dead(const std::vector<std::string>& hosts, std::vector<std::string>& dead) {
    std::set<std::string> others;
    for (const LaunchHost& host : hosts_) {
      if (!contains(hosts, host.name)) others.insert(host.name);
    }
    const AcceptPart nothing{Stage::doctor, {{Stage::doctor, -1, std::string(kStartOnly)}}, {}};
    // A healthy start takes seconds; ssh to a silent host takes minutes, and would do so once per halving.
    const double timeout_s = 20 + 0.1 * static_cast<double>(hosts.size());
    if (launch_child(command(nothing, 0, 0, others), timeout_s).good()) return;
    if (hosts.size() == 1) return dead.push_back(hosts.front());
    const auto middle = hosts.begin() + static_cast<std::ptrdiff_t>(hosts.size() / 2);
    find_dead({hosts.begin(), middle}, dead);
    find_dead({middle, hosts.end()}, dead);
  }

  /// If new nodes are down, this shows it in seconds instead of by the time limit of the first part. Whether any is.
  bool leave_out_dead_hosts(AcceptResult& result) {
    StageFailure failure;
    failure.stage = result.plan.stages.empty() ? Stage::whole : result.plan.stages.front();
    failure.hosts = hosts_that_do_not_start();
    if (failure.hosts.empty()) return false;
    failure.verdict = "HOST_UNREACHABLE";
    failure.text = fmt::format("a launch that measures nothing does not start on {}", fmt::join(failure.hosts, ", "));
    leave_out(result, failure);
    result.failures.push_back(std::move(failure));
    return true;
  }

  /// Leaves the hosts that the failure blames out of the next launches; returns whether it could.
  bool leave_out(AcceptResult& result, const StageFailure& failure) {
    say("{}: {}", failure.verdict, failure.text);
    if (!exclude(failure.hosts)) return false;
    say("continuing without {}", fmt::join(failure.hosts, ", "));
    result.excluded_hosts.assign(excluded_.begin(), excluded_.end());
    return true;
  }

  std::vector<std::string> run_part(AcceptResult& result, const AcceptPart& part, int repetition, double left_s) {
    double measuring_s = 0;
    for (const AcceptStep& step : part.steps) measuring_s += estimate_step_s(result.plan, step);
    const std::vector<std::string> ids = mapped(part.steps, &AcceptStep::id);
    say("{}{}: about {}{}", fmt::join(ids, ", "), repetition > 0 ? fmt::format(", repetition {}", repetition) : "",
        format_duration(measuring_s), part.stage == Stage::pairs ? looks_allowance(result.plan) : "");
    LaunchedPart launched;
    try {
      launched = launch(part, repetition, launch_timeout_s(result.plan, part, measuring_s, left_s), left_s);
    } catch (const Interrupted&) {
      take_over_part(result, part_file_);
      throw;
    }
    std::vector<std::string> finished;
    if (launched.results) {
      started_once_ = true;
      finished = launched.results->done;
      add_part(result, std::move(*launched.results));
    }
    if (!launched.failure) return finished.empty() ? ids : finished;
    return fail(result, part, std::move(*launched.failure), std::move(finished));
  }

  std::vector<std::string> fail(AcceptResult& result, const AcceptPart& part, StageFailure failure,
                                std::vector<std::string> finished) {
    const auto under_way =
        std::ranges::find_if(part.steps, [&](const AcceptStep& step) { return !contains(finished, step.id); });
    if (under_way != part.steps.end() && under_way->cell >= 0)
      failure.cell = result.plan.cells[static_cast<std::size_t>(under_way->cell)].name;
    if (failure.hosts.empty() && failure.ranks.empty()) {
      // A host that died while the launch started says nothing, and nothing else names it.
      failure.hosts = hosts_that_do_not_start();
      if (!failure.hosts.empty()) {
        failure.text +=
            fmt::format("; now a launch that measures nothing does not start on {}", fmt::join(failure.hosts, ", "));
      }
    }
    const bool excluded = leave_out(result, failure);
    result.failures.push_back(std::move(failure));
    // Without its culprit the step is tried again.
    if (!excluded && under_way != part.steps.end()) finished.push_back(under_way->id);
    return finished;
  }

  const AcceptOptions& options_;
  InterruptsHeld held_;                 // an interrupt between two launches must find the results written
  std::optional<LaunchFolder> folder_;  ///< for what launches leave, if there is no file to put it next to
  std::string part_file_;               ///< next to the run's own file
  std::string host_file_;
  std::vector<std::string> words_;        ///< of the launch command
  std::vector<LaunchHost> hosts_;         ///< that it names
  int nranks_ = 0;                        ///< of all hosts; 0: the command does not say
  std::vector<AcceptResult::Host> seen_;  ///< what a launch said of its hosts: how many ranks go with an excluded one
  std::set<std::string> excluded_;
  bool looked_ = false;        ///< for hosts that do not start
  bool started_once_ = false;  ///< some launch measured something
};

}  // namespace

ExitCode run_accept_launches(std::span<char*> args, const AcceptOptions& options) {
  LaunchedSteps launches(options);
  return run_acceptance(args, options, checked_plan(read_plan_text(options.plan_file), options), launches);
}

}  // namespace busbar
