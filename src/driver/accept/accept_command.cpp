#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/job/session_job.h"
#include "common/output/table.h"
#include "common/processes/child.h"
#include "driver/accept/accept_engine.h"
#include "driver/accept/read_accept_plan.h"
#include "driver/command/subcommand.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <span>

namespace busbar {
namespace {

/// Those without a help are for launched ranks.
std::vector<OwnOption> own_options(AcceptOptions& o) {
  using Text = std::string_view;
  std::vector<OwnOption> options{
      {"launch", "COMMAND", "launch each part with this command: a hang or crash then ends that part alone",
       into(o.launch)},
      {"ranks", "N", "with --launch: the number for {ranks} in it",
       [&](Text t) { o.nranks = parse_int(t, 1, 1 << 24); }},
      {"report", "FILE.html", "write the report, one file that opens anywhere", into(o.report, parse_file_name)},
      {"resume", "FILE", "continue the interrupted run that wrote these results", into(o.resume, parse_file_name)},
      {"baseline", "FILE[,...]", "compare with the results of earlier runs, a launch each",
       into(o.baseline, parse_file_name)},
      {"baseline-margin", "X%", "how much two runs of a healthy cluster may differ (default: 5 %)",
       [&](Text t) { o.baseline_margin = parse_below_half(t, "a margin below 50 %, such as 5%"); }},
      {"save-baseline", "FILE", "write the results as a baseline if the verdict is PASS or WARN",
       into(o.save_baseline, parse_file_name)},
      {"strict", "", "a warning fails too (exit code 7)", [&](Text) { o.strict = true; }},
      {"part", "IDS", "",
       [&](Text t) {
         const auto ids = split_text(t, ',');
         o.part.assign(ids.begin(), ids.end());
       }},
      {"part-results", "FILE", "", into(o.part_results)},
      {"repetition", "N", "", [&](Text t) { o.repetition = parse_int(t, 0); }},
      {"left", "SECONDS", "", into(o.left_s, parse_duration)},
  };
  std::vector<OwnOption> files = output_own_options(o.outputs);
  options.insert(options.begin() + 3, std::make_move_iterator(files.begin()), std::make_move_iterator(files.end()));
  return options;
}

constexpr std::array<std::string_view, 13> kForEveryCell{
    "ranks-per-gpu", "backend", "timeout",     "inject",      "paranoid", "ngpus",   "nthreads",
    "seed",          "dry-run", "output_file", "mpi-threads", "launcher", "meet-key"};

/// Options that would contradict the plan.
void check_line(AcceptOptions& options) {
  for (const Setting& setting : options.line.settings) {
    const std::string_view name = setting.option->long_name;
    if (!contains(kForEveryCell, name)) {
      throw_bad_config(fmt::format(
          "set {} in the plan, for each cell; for all cells accept takes {}", label(*setting.option),
          "--backend -T --inject --paranoid -g -t --seed --mpi-threads --launcher --meet-key --dry-run -J"));
    }
    Config config;
    setting.option->set(config, setting.text);
    if (name == "output_file") (config.output_file == "-" ? options.json : options.results) = config.output_file;
    if (name == "dry-run") options.dry_run = config.dry_run;
  }
  std::erase_if(options.line.settings, [](const Setting& setting) {
    return setting.option->long_name == "output_file" || setting.option->long_name == "dry-run";
  });
  if (!options.line.config_file.empty())
    throw_bad_config("accept reads its plan, not --config: busbar accept PLAN.yaml");
  if (!options.resume.empty() && !options.results.empty())
    throw_bad_config("--resume continues its own file: leave out -J");
}

std::vector<std::string> shipped_plans() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_plans()) {
    const bool is_plan = file.text.find("\nstages:") != std::string_view::npos;
    if (is_plan) names.emplace_back(file.name.substr(0, file.name.rfind(".yaml")));
  }
  std::ranges::sort(names);
  return names;
}

/// Throws Error(bad_config).
AcceptOptions read_accept_options(int argc, const char* const* argv) {
  AcceptOptions options;
  options.line = scan_arguments(argc, argv, own_options(options));
  if (options.line.action != CommandLine::Action::run) return options;
  if (options.line.words.size() != 1) {
    throw_bad_config(fmt::format("which plan? busbar accept PLAN.yaml, or one of the shipped ones: {}",
                                 fmt::join(shipped_plans(), " ")));
  }
  options.plan_file = options.line.words.front();
  check_line(options);
  return options;
}

std::string accept_help() {
  AcceptOptions unused;
  std::string text = help_of("accept", own_options(unused));
  constexpr std::string_view kPlace = "{plans}";
  return text.replace(text.find(kPlace), kPlace.size(), joined_words(shipped_plans()));
}

int run_accept_process(const Launch& detected, int argc, char** argv) {
  const AcceptOptions options = read_accept_options(argc, argv);
  if (const auto code = help_or_version(detected, options.line.action, accept_help)) return *code;
  const Launch launch = chosen_launch(options.line);
  const bool is_root = launch.rank <= 0;
  if (options.dry_run) {
    const AcceptPlan plan = checked_plan(read_plan_text(options.plan_file), options);
    if (is_root) write_stdout(accept_dry_run(plan, !options.launch.empty()));
    return code_of(ExitCode::good);
  }
  if (launch.launched() && !options.launch.empty())
    throw_bad_config("--launch starts jobs itself: start busbar without a launcher");
  const std::span<char*> args(argv, static_cast<std::size_t>(argc));
  if (!options.launch.empty()) return code_of(run_accept_launches(args, options));
  return run_session(argc, argv, launch, mpi_start(options.line),
                     [&](Job& job) { return run_accept_job(args, options, job); });
}

}  // namespace

Config config_of(const PlanCell& cell, const AcceptOptions& options) {
  Config config = cell.config;
  for (const Setting& setting : options.line.settings) setting.option->set(config, setting.text);
  config.stat = true;
  config.show_algo = true;
  config.per_rank = true;
  config.dry_run = false;
  if (options.left_s > 0) config.max_time_s = std::min(config.max_time_s, options.left_s);
  validate(config);
  return config;
}

AcceptPlan checked_plan(const std::string& text, const AcceptOptions& options) {
  AcceptPlan plan = read_accept_plan(text, options.plan_file);
  check_environment_needs(plan, !options.launch.empty() || !options.part.empty());
  for (const PlanCell& cell : plan.cells) config_of(cell, options);
  // Twice what healthy runs differ by is beyond doubt.
  if (options.baseline_margin >= 0) plan.baseline_margin = {options.baseline_margin, 2 * options.baseline_margin};
  return plan;
}

std::string read_plan_text(const std::string& file) {
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown)) {
    for (const EmbeddedFile& plan : embedded_plans()) {
      if (plan.name == file || plan.name == file + ".yaml") return std::string(plan.text);
    }
    const std::vector<std::string> names = shipped_plans();
    if (file.find('/') == std::string::npos) {
      throw_bad_config(fmt::format("there is no plan {}{}; the shipped ones: {}", in_quotes(file),
                                   did_you_mean(std::filesystem::path(file).stem().string(), names),
                                   fmt::join(names, " ")));
    }
  }
  return read_file(file, "the plan");
}

int run_accept(int argc, char** argv) {
  const Launch launch = detect_launch();
  return run_with_children(launch, [&] { return run_accept_process(launch, argc, argv); });
}

}  // namespace busbar
