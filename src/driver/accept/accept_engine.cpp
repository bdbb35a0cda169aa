#include "driver/accept/accept_engine.h"

#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/record/finding.h"
#include "driver/accept/judge_acceptance.h"
#include "driver/accept/platform.h"
#include "driver/accept/read_accept_plan.h"
#include "driver/report/report_html.h"
#include "driver/report/report_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

namespace busbar {
namespace {

/// Keeps other runs from writing the same results while it lives: flock of FILE.lock, which ends with the process.
class ResultsLock {
 public:
  /// Throws Error(bad_config) if another run holds it. On a file system without locks, or in a folder without room for
  /// one more file, there is no lock.
  explicit ResultsLock(const std::string& results) : path_(results + ".lock") {
    do {
      lock(results);
    } while (fd_ >= 0 && !is_there());
  }
  ResultsLock(const ResultsLock&) = delete;
  ResultsLock& operator=(const ResultsLock&) = delete;
  ~ResultsLock() {
    if (fd_ < 0) return;
    ::unlink(path_.c_str());  // while it is held
    ::close(fd_);
  }

 private:
  void lock(const std::string& results) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    // The ranks of a job that was killed a moment ago may still be ending.
    constexpr int kTries = 50;
    for (int tries = 0; fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0; ++tries) {
      const bool is_taken = errno == EWOULDBLOCK;
      if (is_taken && tries < kTries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        continue;
      }
      ::close(std::exchange(fd_, -1));
      if (is_taken) throw_bad_config(fmt::format("--resume: another run of busbar is writing {}", results));
    }
  }

  /// Whether the locked file still has its name: a run that ends removes it, and its lock keeps nobody out.
  bool is_there() const {
    struct stat locked {
    }, named{};
    return ::fstat(fd_, &locked) == 0 && ::stat(path_.c_str(), &named) == 0 && locked.st_ino == named.st_ino &&
           locked.st_dev == named.st_dev;
  }

  std::string path_;
  int fd_ = -1;
};

/// The results of a run of accept on disk, correct after every step, for --resume and `report`. For process 0 alone.
class AcceptStore {
 public:
  /// Creates the file that -J names (or FILE.0, ...), else busbar-accept.json if the plan wants results; --resume
  /// continues its own. Throws Error(bad_config) if a requested file cannot be written.
  AcceptStore(const AcceptOptions& options, bool wanted)
      : file_(options.resume, Replacing::durably), resumed_(is_kept()), asked_(resumed_ || !options.results.empty()) {
    if (resumed_ && ::access(path().c_str(), W_OK) != 0) {
      throw_bad_config(fmt::format("--resume: {} cannot be written: {}", path(), std::strerror(errno)));
    }
    if (!resumed_ && (asked_ || wanted)) {
      try {
        const std::string asked = asked_ ? options.results : "busbar-accept.json";
        file_ = {create_new_file(asked, "-J").path, Replacing::durably};
      } catch (const Error& e) {
        go_without(e.what());
      }
    }
    if (is_kept()) lock_.emplace(path());
  }

  /// Where a launch leaves what it measured for the busbar that launched it; replaces what is there.
  struct Part {
    std::string path;
  };
  explicit AcceptStore(Part part) : file_(std::move(part.path), Replacing::durably), resumed_(false), asked_(true) {}

  const std::string& path() const { return file_.path(); }
  /// Whether there is a file at all.
  bool is_kept() const { return file_.is_there(); }

  /// What an earlier run wrote to the file; nothing if it is new. Throws Error(bad_config) if it is another plan's.
  std::optional<AcceptResult> earlier(const AcceptPlan& plan) const {
    if (!resumed_) return std::nullopt;
    const std::string text = read_file(path(), "the results to resume");
    if (text.empty()) {
      say("{} is empty: its run ended before its first result, so all is measured", path());
      return std::nullopt;
    }
    AcceptResult result = read_accept_json(text, path());
    if (result.plan.digest != plan.digest) {
      throw_bad_config(
          fmt::format("--resume: {} was made with another plan than {}; start again, or resume with its own plan",
                      path(), plan.file));
    }
    return result;
  }

  /// Replaces the file's text in one step. A disk that fills up later is reported once on stderr; the run continues.
  void save(const AcceptResult& result) {
    file_.write([&] { return accept_json(result); }, result.done.size());
  }
  void add_lost(Lost& lost) const { file_.add_lost(lost, "step"); }

  bool is_saved() const { return file_.complete(); }

  /// The first save: throws Error(bad_config) if the file cannot be written.
  void start(const AcceptResult& result) {
    if (!is_kept()) return;
    const int error = replace_file(path(), accept_json(result));
    if (error == 0) return;
    if (!resumed_) std::remove(path().c_str());
    go_without(fmt::format("cannot write '{}': {}", path(), std::strerror(error)));
  }

 private:
  /// No error if nobody requested the results.
  void go_without(const std::string& why) {
    if (asked_) throw_bad_config(why);
    say("warning: {}; the run continues and keeps no results", why);
    lock_.reset();
    file_ = {};
  }

  RewrittenFile file_;
  bool resumed_;
  bool asked_;
  std::optional<ResultsLock> lock_;
};

/// Everything that accept writes, from before the first measurement to the verdict. For process 0 alone.
class AcceptEnd {
 public:
  /// Opens the files and reads the baseline; throws Error(bad_config) before anything is measured.
  AcceptEnd(const AcceptOptions& options, const AcceptResult& begun, StartedFiles& started) : options_(options) {
    const std::string& baseline = options.baseline.empty() ? begun.plan.baseline : options.baseline;
    if (!baseline.empty()) {
      for (const std::string_view file : split_text(baseline, ',')) add_baseline(std::string(file));
    }
    if (!options.report.empty())
      report_ = {started.add(create_new_file(options.report, "--report").path), Replacing::plainly};
    json_ = {options.json, "-J"};
    if (!options.save_baseline.empty())
      baseline_file_ = started.add(create_new_file(options.save_baseline, "--save-baseline").path);
    files_.open(options.outputs, begun, "accept", started);
    write_report(begun);  // so that there is one that opens, however the run ends
  }

  /// Judges what is there so far.
  void judge(AcceptResult& result) const {
    judge_acceptance(result, shipped_platforms(), baseline_ ? &*baseline_ : nullptr);
  }

  /// What the files say until the run ends: judged as far as it goes, without an end_time, unfinished.
  void write_so_far(AcceptResult result) {
    judge(result);
    write_report(result);
    files_.write_so_far(result);
  }

  /// Prints the verdict, writes the files and returns the exit code that they make.
  ExitCode finish(const AcceptResult& result, const AcceptStore& store) {
    const bool printed = write_stdout(accept_text(result));
    write_report(result);
    json_.write([&] { return accept_json(result); });
    json_.finish();
    Lost lost = files_.write(result);
    store.add_lost(lost);
    for (const RewrittenFile* file : {&report_, &json_}) file->add_lost(lost);
    const bool good = result.outcome == Outcome::pass || result.outcome == Outcome::warn;
    if (!baseline_file_.empty() && good) {
      const int error = replace_file(baseline_file_, accept_json(result));
      if (error != 0) lost.push_back(fmt::format("nothing in {} ({})", baseline_file_, why_lost(error)));
    } else if (!baseline_file_.empty()) {
      std::remove(baseline_file_.c_str());
      say("no baseline is saved from a run that ended {}", name(result.outcome));
    }
    std::vector<std::string> written;
    if (store.is_kept()) written.push_back("results: " + store.path());
    if (report_.is_there()) written.push_back("report: " + report_.path());
    if (!written.empty()) say("{}", joined_words(written, ", "));
    const ExitCode code = exit_code(result.outcome, options_.strict);
    return say_lost(lost, printed) || code != ExitCode::good ? code : ExitCode::results_lost;
  }

 private:
  void write_report(const AcceptResult& result) {
    report_.write([&] {
      ReportData data;
      add_accept(data, result);
      return report_html(data);
    });
  }

  /// Of several files each counts as a launch, or as several if it holds several, as repetitions of the first.
  void add_baseline(const std::string& file) {
    AcceptResult more = read_accept_json(read_file(file, "the baseline"), file);
    // Its cells are identified by their place in its plan.
    if (!more.plan.text.empty()) more.plan = read_accept_plan(more.plan.text, more.plan.file);
    if (!baseline_) {
      baseline_ = std::move(more);
      return;
    }
    const AcceptResult& known = *baseline_;
    const auto ranks = [](const AcceptResult& result) {
      return result.cells.empty() ? 0 : result.cells.front().nranks;
    };
    if (more.plan.text != known.plan.text || more.backend != known.backend || ranks(more) != ranks(known)) {
      throw_bad_config(
          fmt::format("--baseline {}: its plan, backend or number of ranks differs from the first file's; give files "
                      "of equal runs",
                      file));
    }
    const auto one_launch = [](AcceptResult& result) {
      for (Cell& m : result.cells) m.repetition = result.launch.empty() ? 0 : m.repetition;
    };
    one_launch(*baseline_);
    one_launch(more);
    const int first = last_repetition(*baseline_) + 1;
    for (Cell& m : more.cells) {
      m.repetition += first;
      baseline_->cells.push_back(std::move(m));
    }
    baseline_->launch = "each of several files";
  }

  const AcceptOptions& options_;
  OutputFiles files_;
  std::optional<AcceptResult> baseline_;
  RewrittenFile report_;
  RewrittenFile json_;  ///< -J -
  std::string baseline_file_;
};

using EngineClock = std::chrono::steady_clock;

/// One run; one of it lives as long. Only the process that writes has `store_` and `end_` and knows the whole result:
/// what the others do depends on agreed values.
class Acceptance {
 public:
  Acceptance(std::span<char*> args, const AcceptOptions& options, AcceptPlan plan, StepRunner& runner)
      : options_(options), runner_(runner) {
    result_.plan = std::move(plan);
    result_.version = BUSBAR_VERSION;
    result_.start_time = local_timestamp();
    result_.command.assign(args.begin(), args.end());
    result_.launch = options.launch;
    for (char** e = environ; *e != nullptr; ++e) result_.environment.emplace_back(*e);
  }

  ExitCode run() {
    limit_s_ = result_.plan.max_time_s;
    runner_.open(result_);
    open_files();
    try {
      if (runner_.can_measure(result_)) {
        const std::vector<AcceptStep> late = run_steps(pending_in(0, steps_of(result_.plan)), 0);
        if (!late.empty()) result_.remarks.push_back(out_of_time_remark(result_.plan, late));
        repeat();
      }
      runner_.close(result_);
      return finish();
    } catch (const Interrupted& e) {
      throw Interrupted(e.signal(), keep());
    }
  }

  void run_part() {
    limit_s_ = options_.left_s;
    runner_.open(result_);
    runner_.on_root([&] {
      store_.emplace(AcceptStore::Part{options_.part_results});
      store_->start(result_);
      steps_of_part();  // throws here, so that all fail alike
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
  /// Of the limit; on the process that writes. Testing slow hosts again does not count.
  double used_s() const { return elapsed_s() - (located_later_s() - earlier_later_s_); }
  double located_later_s() const { return result_.located ? result_.located->later_s : 0; }
  bool out_of_time() const { return limit_s_ > 0 && agree(used_s() >= limit_s_); }
  /// 0: no bound.
  double left_s() const { return limit_s_ > 0 ? runner_.agree(std::max(0.1, limit_s_ - used_s())) : 0; }

  void report(const std::string& text) const {
    if (store_) say("{}", text);
  }

  /// Writes what was measured until an interrupt, which reaches only a process that launches. Returns what was kept.
  std::string keep() {
    result_.elapsed_s = repeated_s();
    save();
    return kept();
  }

  /// Writes what is known so far to every file that must exist however the run ends.
  void save() {
    store_->save(result_);
    if (end_) end_->write_so_far(result_);
  }

  std::string kept() const {
    if (!store_->is_kept()) return kNothingKept;
    return fmt::format("kept {} of {} steps in {}; --resume {} continues", result_.done.size(),
                       steps_of(result_.plan).size(), store_->path(), store_->path());
  }

  void open_files() {
    runner_.on_root([&] {
      StartedFiles started;
      end_.emplace(options_, result_, started);
      store_.emplace(options_, result_.plan.keeps_results);
      std::optional<AcceptResult> earlier = store_->earlier(result_.plan);
      const bool resumed = earlier.has_value();
      if (resumed) take_over(result_, std::move(*earlier));
      earlier_s_ = result_.elapsed_s;
      earlier_later_s_ = located_later_s();
      runner_.start(result_, store_->path(), resumed);
      store_->start(result_);
      started.keep();
      runner_.keep(kept());
      if (limit_s_ > 0) report(fmt::format("at most {}{}", format_duration(limit_s_), looks_allowance(result_.plan)));
      if (store_->is_kept()) {
        report(fmt::format("results: {0} (--resume {0} continues after an interruption)", store_->path()));
      }
    });
  }

  std::vector<AcceptStep> steps_of_part() const {
    std::vector<AcceptStep> steps;
    for (const std::string& id : options_.part) {
      if (id != kStartOnly) steps.push_back(find_step(result_.plan, id));
    }
    return steps;
  }

  /// Those of `steps` that a resumed run has not measured in this repetition; nodes are checked once.
  std::vector<AcceptStep> pending_in(int repetition, const std::vector<AcceptStep>& steps) const {
    std::vector<AcceptStep> pending;
    for (const AcceptStep& step : steps) {
      if (repetition > 0 && step.stage == Stage::doctor) continue;
      if (!agree(is_measured(result_, step, repetition))) pending.push_back(step);
    }
    return pending;
  }

  /// Returns those for which there was no time.
  std::vector<AcceptStep> run_steps(std::vector<AcceptStep> pending, int repetition) {
    while (!pending.empty() && !out_of_time()) {
      const std::vector<std::string> finished = runner_.run(result_, pending, repetition, left_s());
      std::erase_if(pending, [&](const AcceptStep& step) { return contains(finished, step.id); });
      result_.elapsed_s = repeated_s();
      if (!store_) continue;
      if (repetition == 0) {
        save();
      } else if (const auto begin = EngineClock::now(); begin >= next_save_) {
        save();
        // Hours of repetitions make it long, so it takes at most a twentieth of the time.
        const auto end = EngineClock::now();
        next_save_ = end + 20 * (end - begin);
      }
      if (end_ && store_->is_saved()) runner_.keep(kept());
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
      // Nothing starts any more, or there is nothing to measure: hours of repeating that show no more.
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
      report("a criterion failed: looking for the culprit");
      // However much of max-time is left: without it nobody knows what to replace.
      runner_.locate(result_);
      runner_.on_root([&] { end_->judge(result_); });
    }
    const double later_s = located_later_s() - earlier_later_s_;
    if (later_s > 0 && limit_s_ > 0) {
      result_.remarks.push_back(fmt::format("{} went into testing slow hosts again, not counted in max-time",
                                            format_duration(std::round(later_s))));
    }
    runner_.enter("writing results");
    ExitCode code = ExitCode::good;
    runner_.on_root([&] {
      result_.end_time = local_timestamp();
      store_->save(result_);
      code = end_->finish(result_, *store_);
    });
    return static_cast<ExitCode>(static_cast<int>(runner_.agree(static_cast<double>(code))));
  }

  const AcceptOptions& options_;
  StepRunner& runner_;
  EngineClock::time_point start_ = EngineClock::now();
  double earlier_s_ = 0;        ///< of the runs that this one resumes; on the process that writes
  double earlier_later_s_ = 0;  ///< of these, asking again after slow hosts
  double limit_s_ = 0;          ///< of this run; 0: no bound
  AcceptResult result_;
  std::optional<AcceptEnd> end_;
  std::optional<AcceptStore> store_;
  EngineClock::time_point next_save_{};
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
