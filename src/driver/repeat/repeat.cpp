#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/job/session_job.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/processes/child.h"
#include "common/processes/launcher.h"
#include "driver/command/subcommand.h"
#include "driver/launch/launching.h"
#include "driver/repeat/repeated_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace busbar {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct RepeatOptions {
  std::vector<std::string> command;
  std::string output_file, keep;
  int launches = 10;
  double spaced_s = 0;
  double timeout_s = 3600;
  double rel_ci = 0;  ///< 0: all launches
};

std::vector<OwnOption> own_options(RepeatOptions& o) {
  using Text = std::string_view;
  return {{"launches", "N", "launches at most (default: 10)", [&](Text t) { o.launches = parse_int(t, 2, 1000); }, 'n'},
          {"spaced", "TIME", "least time from one start to the next, such as 60s: launches in a row share drift",
           into(o.spaced_s, parse_duration)},
          {"rel-ci", "X%", "stop after 6, 8 or 10 launches if every row's interval is +-X % or narrower",
           into(o.rel_ci, parse_fraction)},
          {"keep", "DIR", "keep each launch's -J in DIR; the same command with the same DIR continues", into(o.keep)},
          {"launch-timeout", "TIME", "end a launch that takes longer, and the series with it (default: 1h)",
           into(o.timeout_s, parse_duration)}};
}

void read_line(const CommandLine& line, RepeatOptions& options) {
  options.command = line.words;
  options.output_file = only_output_file(line, "repeat");
  if (options.command.empty())
    throw_bad_config("give the command to repeat: busbar repeat -n 10 mpirun -n 16 all_reduce_perf -b 1M -e 8G");
  const auto own_file = [](const std::string& word) {
    return word.starts_with("-J") || word.starts_with("--output_file") || word.starts_with("--json");
  };
  const bool placed = std::ranges::any_of(
      options.command, [](const std::string& word) { return word.find("{json}") != std::string::npos; });
  // srun has a -J too.
  auto program = std::ranges::find_if(options.command, [](const auto& word) { return word.ends_with("_perf"); });
  if (program == options.command.end()) program = options.command.begin();
  if (!placed && std::any_of(program, options.command.end(), own_file)) {
    throw_bad_config(
        "busbar repeat gives each launch its own -J: leave -J out of the command; --keep DIR keeps the launches' "
        "files, and -J FILE before the command the merged result");
  }
}

/// The command of a launch that writes `results`.
std::vector<std::string> words_with(std::vector<std::string> command, const std::string& results) {
  constexpr std::string_view kPlace = "{json}";
  bool placed = false;
  for (std::string& word : command) {
    for (std::size_t at = word.find(kPlace); at != std::string::npos; at = word.find(kPlace, at + results.size())) {
      word.replace(at, kPlace.size(), results);
      placed = true;
    }
  }
  if (!placed) command.insert(command.end(), {"-J", results});
  return command;
}

/// Throws Interrupted. Interrupts must be held.
void wait_until(Clock::time_point when) {
  const sigset_t set = interrupts();
  for (auto left = when - Clock::now(); left > Clock::duration::zero(); left = when - Clock::now()) {
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec limit{.tv_sec = whole.count(), .tv_nsec = std::chrono::nanoseconds(left - whole).count()};
    const int signal = sigtimedwait(&set, nullptr, &limit);
    if (signal > 0) throw Interrupted(signal);
  }
}

/// A series of launches while it runs.
class Series {
 public:
  explicit Series(const RepeatOptions& options)
      : options_(options), looks_(looks_of(options.launches, options.rel_ci > 0)), level_(level_of(looks_.size())) {
    open_folder();
    json_ = {options.output_file, "-J"};
  }

  int run() {
    LaunchedRun failed;
    try {
      for (int number = 1; number <= options_.launches && !is_narrow(); ++number) {
        LaunchedRun outcome = launch(number);
        if (!outcome.run) {
          failed = std::move(outcome);
          failed.why_not = fmt::format("launch {}: {}", number, failed.why_not);
          break;
        }
        runs_.push_back(std::move(*outcome.run));
        write_json("more launches were to follow");
      }
    } catch (const Interrupted& e) {
      take_interrupted();
      const bool complete = show("it was interrupted");
      throw Interrupted(e.signal(), complete ? kept() : kNothingKept);
    }
    const bool narrow = is_narrow();
    const bool complete = show(!failed.why_not.empty() ? failed.why_not
                               : narrow ? fmt::format("every row is within +-{:g} %", 100 * options_.rel_ci)
                                        : "the number of -n");
    if (!failed.why_not.empty()) throw Error(failed.code, failed.why_not);
    if (options_.rel_ci > 0 && !narrow) {
      say("note: not every row is within +-{:g} %; -n with more launches, or more time between them (--spaced)",
          100 * options_.rel_ci);
    }
    if (!complete) return static_cast<int>(ExitCode::results_lost);
    return static_cast<int>(is_wrong_ ? ExitCode::wrong_data : ExitCode::good);
  }

 private:
  void open_folder() {
    if (options_.keep.empty()) {
      folder_.emplace();
      return;
    }
    // DIR must hold launches of the same command: else two things would count as one.
    const std::string command = join_for_shell(options_.command) + "\n";
    const std::string note = options_.keep + "/command.txt";
    std::error_code error;
    fs::create_directories(options_.keep, error);
    if (error) throw_bad_config(fmt::format("--keep {}: {}", options_.keep, error.message()));
    if (fs::exists(note, error)) {
      const std::string earlier = read_file(note, "the command of --keep");
      if (earlier == command) return;
      throw_bad_config(fmt::format("--keep {}: holds launches of another command: {}", options_.keep,
                                   without_controls(earlier.substr(0, earlier.find('\n')))));
    }
    const int failed = replace_file(note, command);
    if (failed != 0) throw_bad_config(fmt::format("--keep {}: {}", options_.keep, std::strerror(failed)));
  }

  std::string file_of(int number) const {
    const std::string name = fmt::format("launch{:03}.json", number);
    return folder_ ? folder_->file(name) : options_.keep + "/" + name;
  }

  static std::optional<RunFile> finished(const std::string& results) {
    RunFile run = read_run(read_file(results, "a launch's results"), results);
    return run.exit_code ? std::optional(std::move(run)) : std::nullopt;
  }

  /// The launch that was interrupted may have written all it had.
  void take_interrupted() {
    try {
      std::optional<RunFile> run = finished(file_of(static_cast<int>(runs_.size()) + 1));
      if (run) runs_.push_back(std::move(*run));
    } catch (const Error&) {  // not there, or not whole
    }
  }

  LaunchedRun launch(int number) {
    const std::string results = file_of(number);
    std::error_code unknown;
    if (!folder_ && fs::exists(results, unknown)) {
      if (std::optional<RunFile> run = finished(results)) return {std::move(*run), {}, ExitCode::good};
      fs::remove(results, unknown);  // it was ended in the middle
    }
    wait_until(next_start_);
    next_start_ =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.spaced_s));
    say("launch {} of at most {}", number, options_.launches);
    return launch_run(words_with(options_.command, results), results, fmt::format("launch {}", number),
                      options_.timeout_s);
  }

  bool is_narrow() const {
    return options_.rel_ci > 0 && contains(looks_, static_cast<int>(runs_.size())) &&
           repeat_runs(runs_, level_).within(options_.rel_ci);
  }

  RepeatedRuns result(const std::string& why) const {
    RepeatedRuns repeated = repeat_runs(runs_, level_);
    repeated.looks = looks_.size();
    repeated.command = join_for_shell(options_.command);
    repeated.stopped = fmt::format("after {} launches of at most {}: {}", runs_.size(), options_.launches, why);
    return repeated;
  }

  void write_json(const std::string& why) {
    if (runs_.size() >= 2) json_.write([&] { return repeated_json(result(why)); }, runs_.size());
  }

  /// False if the output is not complete; the last line then says what is.
  bool show(const std::string& why) {
    if (runs_.size() < 2) return true;
    const RepeatedRuns repeated = result(why);
    is_wrong_ = std::ranges::any_of(repeated.merged.cells, [](const MergedCell& cell) { return cell.wrong > 0; });
    write_json(why);
    json_.finish();
    const bool printed = write_stdout(repeated_text(repeated));
    Lost lost;
    json_.add_lost(lost);
    return say_lost(lost, printed);
  }

  std::string kept() const {
    const std::string what = fmt::format("{} of {} launches", runs_.size(), options_.launches);
    if (!options_.keep.empty()) return kept_text(what, {options_.keep}) + "; the same command continues";
    if (!json_.is_there() || runs_.size() < 2) return fmt::format("{}; --keep DIR keeps launches", kNothingKept);
    return kept_text(what, {json_.path()}) + "; start again for the others";
  }

  const RepeatOptions& options_;
  const InterruptsHeld held_;  // one between two launches must find the folder
  std::optional<LaunchFolder> folder_;
  std::vector<int> looks_;
  double level_;
  RewrittenFile json_;
  bool is_wrong_ = false;
  std::vector<RunFile> runs_;
  Clock::time_point next_start_;
};

int repeat(const Launch& launch, int argc, char** argv) {
  RepeatOptions options;
  const std::vector<OwnOption> own = own_options(options);
  const CommandLine line = scan_arguments(argc, argv, own, PlainWords::begin_a_command);
  if (const auto code = help_or_version(launch, line.action, [&] { return help_of("repeat", own); })) return *code;
  read_line(line, options);
  if (launch.launched()) throw_bad_config("repeat launches by itself: start it once, without mpirun or srun");
  return Series(options).run();
}

}  // namespace

int run_repeat(int argc, char** argv) {
  const Launch launch = command_launch();
  return run_with_children(launch, [&] { return repeat(launch, argc, argv); });
}

}  // namespace busbar
