#include "common/backends/backend_traits.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/random_source.h"
#include "common/base/read_file.h"
#include "common/base/say.h"
#include "common/base/units.h"
#include "common/measure/plan.h"
#include "common/output/table.h"
#include "common/processes/child.h"
#include "driver/compare/compare.h"
#include "driver/compare/compare_reporter.h"
#include "driver/compare/comparison.h"
#include "driver/compare/launch_rounds.h"
#include "driver/compare/variants.h"
#include "driver/history/history.h"
#include "driver/launch/launching.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

namespace busbar {
namespace {

/// Every launch of a variant of one collective: settings that name the collective are resolved for it.
std::vector<LaunchedVariant> launched_variants(const CompareOptions& options, const Collective& collective) {
  const bool of_mpi = std::ranges::any_of(
      options.vary, [](const Varied& v) { return v.name == "ompi.algorithm" || v.name == kMpichAlgorithm; });
  std::vector<Variant> variants =
      of_mpi ? make_variants(options.vary, collective, kMpiTraits) : all_combinations(options.vary);
  std::vector<LaunchedVariant> launched;
  for (Variant& v : variants) {
    std::vector<std::string> prefix = environment_words(variant_environment(v, collective));
    launched.push_back({std::move(v), std::move(prefix), {}, {}});
  }
  return launched;
}

std::string header(const RunFile& run, const LaunchSeries& series, double delta) {
  const auto labels = mapped(series.variants, [](const LaunchedVariant& v) { return v.variant.label; });
  std::string text =
      fmt::format("# busbar version {} compare backend={} library={}\n", BUSBAR_VERSION, run.backend, run.library);
  text += fmt::format("# cadence: {}; a time is {}\n", run.cadence, run.estimand);
  text += fmt::format(
      "# between launches: {} of each of {} in random order, seed {}; one number per launch and size, its median\n",
      series.launches, fmt::join(labels, ", "), series.seed);
  text += remark_lines(fmt::format("launch command: {}", series.launch));
  text += remark_lines(fmt::format("hosts: {}", fmt::join(run.hosts, ", ")));
  if (series.config.nonblocking) text += remark_lines("calls: nonblocking, each finished before the next");
  text += fmt::format(
      "#\n# Columns: a variant's time over that of the library's own choice (default), +- half of the\n"
      "# interval. No mark: confidently faster or slower by more than {:.3g} %; '=': within it; '?':\n"
      "# undecided. Regret: what the default takes beyond the winner. An interval covers launches on these\n"
      "# hosts in these minutes.\n",
      100 * delta);
  return text;
}

std::vector<LaunchSeries> plan_series(const CompareOptions& options, const Configured& configured) {
  std::vector<LaunchSeries> all;
  int planned = 0;
  std::size_t cells = 0;  // that Holm's adjustment is over
  for (const Collective* collective : options.collectives) {
    LaunchSeries& series = all.emplace_back();
    series.launch = options.launch;
    series.collective = collective;
    series.config = configured.config;
    series.options = configured.settings;
    series.variants = launched_variants(options, *collective);
    series.launches = options.launches;
    planned += options.launches * static_cast<int>(series.variants.size());
    cells = std::max(cells, planned_cells(configured.config, *collective) * (series.variants.size() - 1));
  }
  if (launches_for(cells) > options.launches) {
    say("note: {} launches of each variant are few for {} cells: a difference of twice the usual one between two "
        "launches does not survive the correction for their number; with --launches {} it does",
        options.launches, cells, launches_for(cells));
  }
  // If the user set --max-time, all end by it.
  constexpr double kLeast = 0.2;
  const double max_time_s = configured.config.max_time_s, share_s = max_time_s / planned - kLaunchOverhead;
  if (configured.sets("max-time") && share_s < kLeast) {
    throw_bad_config(fmt::format("--max-time {}: that is too little for {} launches; give it {}, or vary fewer values",
                                 format_duration(max_time_s), planned,
                                 format_duration(planned * (kLaunchOverhead + kLeast))));
  }
  const std::uint64_t seed = seed_or_drawn(configured.config.seed);
  for (LaunchSeries& series : all) {
    series.measure_s = measuring_time_s(planned_cells(series.config, *series.collective));
    if (configured.sets("max-time")) series.measure_s = std::min(share_s, series.measure_s);
    series.timeout_s = options.launch_timeout_s > 0 ? options.launch_timeout_s : 60 + 3 * series.measure_s;
    series.seed = seed;
  }
  return all;
}

RunInfo describe_launches(std::span<char*> args, const RunFile& run, const LaunchSeries& series, const Config& config) {
  RunInfo info;
  info.program = "busbar compare";
  info.version = BUSBAR_VERSION;
  info.backend = run.backend;
  info.library_version = run.library;
  info.args.assign(args.begin(), args.end());
  for (char** e = environ; *e != nullptr; ++e) info.environment.emplace_back(*e);
  info.start_time = local_timestamp();
  info.launch_uuid = random_id();
  info.config = config;
  info.mpi_threads = from_word<MpiThreads>(run.mpi_threads);
  info.nranks = run.nranks;
  // The launches' files do not say which rank was where; JSON and history need the hosts.
  for (const std::string& host : run.hosts) info.ranks.emplace_back().hostname = host;
  info.remarks = {fmt::format("launch command: {}", series.launch),
                  fmt::format("{} launches of each variant in random order", series.launches),
                  fmt::format("hosts: {}", fmt::join(run.hosts, ", "))};
  info.seed = series.seed;
  info.cadence = run.cadence;
  info.estimand = run.estimand;
  return info;
}

/// --verify-file: no comparison, the file is there.
ExitCode verify_given_file(const CompareOptions& options, const Configured& configured) {
  Emitted file;
  std::error_code unknown;
  file.path = std::filesystem::absolute(options.verify_file, unknown).string();
  read_file(file.path, "the --verify-file");  // a missing file would change nothing, silently
  file.kind = file.path.ends_with(".csv") ? Emitted::Kind::tuner : Emitted::Kind::ompi_rules;
  file.environment = environment_of_file(file.kind, file.path);
  for (const Collective* collective : options.collectives) {
    file.targets.push_back({collective, sweep_sizes(configured.config, configured.config.maxbytes)});
  }
  return verify_emitted({&file, 1}, options, configured, read_user_environment());
}

}  // namespace

ExitCode run_launch_comparison(std::span<char*> args, const CompareOptions& options, const Configured& configured) {
  if (!options.verify_file.empty()) return verify_given_file(options, configured);
  check_emission(options);
  const Config& config = configured.config;
  check_folder(config.output_file, "-J");
  check_folder(config.csv, "--csv");
  if (!config.history.empty()) check_history(config.history);
  std::vector<LaunchSeries> all = plan_series(options, configured);
  double total_s = 0;
  int planned = 0;
  for (const LaunchSeries& series : all) {
    const int of_series = series.launches * static_cast<int>(series.variants.size());
    planned += of_series;
    total_s += of_series * (series.measure_s + kLaunchOverhead);
    for (const LaunchedVariant& v : series.variants) {
      if (!config.dry_run) break;
      fmt::print("# {}, {}, {} times:\n{}\n", series.collective->name, v.variant.label, series.launches,
                 join_for_shell(launch_words(series, v, "FILE.json", 1)));
    }
  }
  say("{} launches, about {}", planned, format_duration(total_s));
  if (config.dry_run) return ExitCode::good;
  const double bound_s = configured.sets("max-time") ? config.max_time_s : 3 * total_s;
  const auto deadline =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(bound_s));
  const LaunchFolder folder;
  std::optional<RunInfo> info;
  std::optional<CompareReporter> reporter;
  for (LaunchSeries& series : all) {
    series.deadline = deadline;
    try {
      run_series(series, folder);
    } catch (const Interrupted& e) {
      if (!reporter) throw;
      throw Interrupted(e.signal(), reporter->kept());
    }
    std::vector<Comparison> tables =
        compare_runs(*series.collective, series.variants, options.delta, config.placement == Placements::in);
    if (!reporter) {
      const RunFile& first = series.variants.front().runs.front();
      info = describe_launches(args, first, series, config);
      reporter.emplace(true, *info, options.delta, nullptr);
      reporter->start(header(first, series, options.delta));
    }
    for (Comparison& c : tables) {
      for (ComparedCase& at : c.cases) at.out_of_time = series.out_of_time;
      reporter->add(c);
    }
  }
  const bool wrong = any_wrong(reporter->comparisons());
  const ExitCode code = wrong ? ExitCode::wrong_data : ExitCode::good;
  const bool complete = reporter->end(code);
  const std::vector<Emitted> files = emit_files(options, reporter->comparisons());
  if (wrong || !complete) return wrong ? code : ExitCode::results_lost;
  if (!options.verify) return code;
  return verify_emitted(files, options, configured, read_user_environment());
}

}  // namespace busbar
