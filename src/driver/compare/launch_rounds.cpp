#include "driver/compare/launch_rounds.h"

#include "common/base/error.h"
#include "common/base/program_beside.h"
#include "common/base/read_file.h"
#include "common/measure/plan.h"
#include "driver/compare/rounds.h"
#include "driver/launch/benchmark_arguments.h"
#include "driver/launch/launch_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <system_error>

namespace busbar {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeptOutput = 1 << 20;
constexpr int kMostSeed = 1'000'000'000;

ExitCode as_exit_code(int code) {
  constexpr std::array kKnown{ExitCode::cuda,        ExitCode::backend,    ExitCode::timeout,   ExitCode::not_possible,
                              ExitCode::invalid_use, ExitCode::wrong_data, ExitCode::bad_config};
  const auto* found =
      std::find_if(kKnown.begin(), kKnown.end(), [&](ExitCode known) { return static_cast<int>(known) == code; });
  return found == kKnown.end() ? ExitCode::backend : *found;
}

/// Foreign text on one line.
std::string one_line(std::string_view text) {
  constexpr std::size_t kLongest = 300;
  std::string line(text.substr(0, kLongest));
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return line;
}

struct LaunchEnd {
  std::optional<RunFile> run;
  std::string why_not;
  ExitCode code = ExitCode::good;
};

LaunchEnd launch_once(const LaunchSeries& series, const LaunchedVariant& variant, const LaunchFolder& folder,
                      int number) {
  const std::string results = folder.file(fmt::format("launch{}.json", number));
  const std::vector<std::string> command = launch_words(series, variant, results, number);
  const ChildResult child = run_child(
      command, {.environment = launch_environment(), .timeout_s = series.timeout_s, .output_limit = kKeptOutput});
  // Wrong data is a result, and in the file.
  const bool ended = child.exit_code == 0 || child.exit_code == static_cast<int>(ExitCode::wrong_data);
  if (child.timed_out || !ended) {
    const std::string words = last_words(child.err);
    return {{},
            fmt::format("{}{}{}", describe_end(child, series.timeout_s), words.empty() ? "" : ": ", words),
            child.timed_out ? ExitCode::timeout : as_exit_code(child.exit_code)};
  }
  std::error_code unknown;
  if (!fs::exists(results, unknown)) {
    return {{},
            "it ended well but left no results here: does its rank 0 run on another host? Start in a directory that "
            "all hosts share",
            ExitCode::not_possible};
  }
  try {
    RunFile run = read_run(read_file(results, "a launch's results"), fmt::format("launch {}", number));
    if (!run.exit_code) return {{}, "its results are unfinished", ExitCode::backend};
    return {std::move(run), {}, ExitCode::good};
  } catch (const Error& e) {
    return {{}, e.what(), ExitCode::internal};
  }
}

}  // namespace

LaunchFolder::LaunchFolder() {
  std::error_code unknown;
  std::string why;
  for (const fs::path& parent : {fs::current_path(unknown), fs::temp_directory_path(unknown)}) {
    std::string name = (parent / "busbar_launches_XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) {
      path_ = name;
      return;
    }
    why = std::error_code(errno, std::generic_category()).message();
  }
  throw Error(ExitCode::not_possible,
              fmt::format("no folder for the launches' results can be made here or in /tmp: {}", why));
}

LaunchFolder::~LaunchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

SeriesResult run_series(const LaunchSeries& series, const LaunchFolder& folder,
                        const std::function<void(const std::string&)>& tell) {
  SeriesResult result;
  for (const LaunchedVariant& v : series.variants) {
    result.variants.push_back({.variant = v.variant, .runs = {}, .why_not = {}});
  }
  std::vector<std::size_t> active(series.variants.size());
  std::iota(active.begin(), active.end(), std::size_t{0});
  const int planned = series.launches * static_cast<int>(active.size());
  int number = 0;
  for (int round = 0; round < series.launches; ++round) {
    if (std::chrono::steady_clock::now() >= series.deadline) {
      result.out_of_time = true;
      break;
    }
    for (const std::size_t v : round_order(series.seed, 0, round, active)) {
      VariantRuns& of = result.variants[v];
      ++number;
      tell(fmt::format("{}: launch {} of at most {}, {}", series.collective->name, number, planned, of.variant.label));
      LaunchEnd outcome = launch_once(series, series.variants[v], folder, number);
      if (outcome.run) {
        of.runs.push_back(std::move(*outcome.run));
        continue;
      }
      if (v == 0) {
        throw Error(outcome.code,
                    fmt::format("the launch of {} without settings failed, so there is nothing to compare "
                                "with: {}",
                                series.collective->name, outcome.why_not));
      }
      of.why_not = outcome.why_not;
      of.runs.clear();
      std::erase(active, v);
    }
  }
  return result;
}

std::vector<std::string> launch_words(const LaunchSeries& series, const LaunchedVariant& variant,
                                      const std::string& results, int number) {
  std::vector<std::string> command = variant.prefix;
  command.push_back(benchmark_program(*series.collective));
  for (std::string& word : benchmark_arguments(series.config)) command.push_back(std::move(word));
  command.push_back(fmt::format("--max-time={:.3g}", series.measure_s));
  command.push_back(fmt::format("--cell-time={:.3g}", series.measure_s));
  command.push_back(fmt::format("--seed={}", 1 + (series.seed + static_cast<std::uint64_t>(number)) % kMostSeed));
  command.emplace_back("--show-algo");
  command.push_back("--output_file=" + results);
  return launch_command(series.launch, series.nranks, command);
}

std::vector<std::string> environment_words(const std::vector<std::pair<std::string, std::string>>& environment) {
  if (environment.empty()) return {};
  std::vector<std::string> words{"env"};
  for (const auto& [name, value] : environment) words.push_back(fmt::format("{}={}", name, value));
  return words;
}

std::string benchmark_program(const Collective& collective) {
  return program_beside(fmt::format("{}_perf", collective.name)).string();
}

std::string last_words(std::string_view text) {
  constexpr std::string_view kError = "busbar: error: ";
  constexpr std::size_t kLines = 2;
  std::vector<std::string> lines;
  std::string error;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.starts_with(kError)) error = line.substr(kError.size());
    // Launchers frame what they say.
    if (line.find_first_not_of(" \t\r-=*") != std::string_view::npos) lines.emplace_back(line);
  }
  if (!error.empty()) return one_line(error);
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  for (std::string& line : lines) line = one_line(line);
  return fmt::format("{}", fmt::join(lines, " / "));
}

std::size_t planned_cells(const Config& config, const Collective& collective) {
  const std::size_t ops = collective.has_op ? config.ops.size() : 1;
  return sweep_sizes(config, config.maxbytes).size() * config.dtypes.size() * ops;
}

double measuring_time_s(std::size_t cells) {
  // At least ten epochs of 10 ms with their warm-up, for each cell.
  constexpr double kCell = 0.3;
  return std::max(0.5, kCell * static_cast<double>(cells));
}

}  // namespace busbar
