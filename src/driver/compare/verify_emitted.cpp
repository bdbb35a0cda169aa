#include "common/backends/backend.h"
#include "common/base/random_source.h"
#include "common/base/say.h"
#include "common/base/units.h"
#include "common/output/table.h"
#include "common/processes/child.h"
#include "common/processes/launcher.h"
#include "driver/compare/compare.h"
#include "driver/compare/comparison.h"
#include "driver/compare/launch_rounds.h"
#include "driver/fingerprint/fingerprint_run.h"
#include "driver/launch/launching.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace busbar {
namespace {

constexpr int kLaunches = 6;                  // with the file, and as many without
constexpr std::size_t kMostFingerprints = 4;  // each takes two launches

/// How launches with and without a file are started.
struct VerifySettings {
  const CompareOptions& options;
  const Configured& configured;
  const EnvironmentSettings& user_environment;
};

/// What was seen of one file.
struct SeenLaunch {
  int faster = 0, slower = 0, same = 0, open = 0, failed = 0;
  int changed = 0, unchanged = 0;  ///< sizes at which something else runs, or the same
};

void print(const std::string& text) {
  if (!write_stdout(text)) throw Error(ExitCode::results_lost, "stdout takes no more output");
}

std::string launch_of(const VerifySettings& settings, int nranks) {
  const std::string& given = settings.options.launch;
  return given.empty() ? fmt::format("mpirun -n {} --oversubscribe", nranks) : given;
}

/// The user's own environment: without what the file brings, and without what `busbar compare` set for itself.
std::vector<std::string> words_without(const Emitted& file, const VerifySettings& settings) {
  std::vector<std::string> words{"env"}, set;
  for (const auto& [name, value] : file.environment) {
    const auto& user = settings.user_environment;
    const auto kept = std::ranges::find_if(user, [&, n = name](const auto& u) { return u.first == n; });
    if (kept == user.end()) {
      words.insert(words.end(), {"-u", name});
    } else {
      set.push_back(fmt::format("{}={}", kept->first, kept->second));
    }
  }
  words.insert(words.end(), set.begin(), set.end());
  return words;
}

LaunchSeries series_for(const Emitted& file, const Emitted::Target& target, const VerifySettings& settings,
                        std::uint64_t seed) {
  LaunchSeries series;
  series.launch = launch_of(settings, file.nranks);
  series.nranks = file.nranks > 0 ? std::optional<int>(file.nranks) : std::nullopt;
  series.collective = target.collective;
  series.config = settings.configured.config;
  series.config.sizes = target.sizes;
  series.options = settings.configured.settings;
  series.variants = {{{"without", {}}, words_without(file, settings), {}, {}},
                     {{"with", file.environment}, environment_words(file.environment), {}, {}}};
  const std::size_t cells = planned_cells(series.config, *target.collective);
  series.launches = std::max(kLaunches, launches_for(cells));
  series.measure_s = measuring_time_s(cells);
  series.timeout_s =
      settings.options.launch_timeout_s > 0 ? settings.options.launch_timeout_s : 60 + 3 * series.measure_s;
  series.seed = seed;
  return series;
}

std::string signed_percent(double fraction) {
  const double p = 100 * fraction;
  return std::abs(p) >= 10 ? fmt::format("{:.0f}", p) : fmt::format("{:.1f}", p);
}

std::string gain_text(const VariantCell& with, double delta, SeenLaunch& seen) {
  if (!with.why_not.empty() || with.wrong > 0) {
    ++seen.failed;
    return with.wrong > 0 ? fmt::format("WRONG: {} wrong elements with it", with.wrong) : "fails: " + with.why_not;
  }
  if (!with.ratio) {
    ++seen.open;
    return "undecided: too few launches";
  }
  const Ratio& r = *with.ratio;
  switch (with.difference) {
    case Difference::faster:
      ++seen.faster;
      return fmt::format("pays: {} % faster ({}..{})", signed_percent(1 - r.value), signed_percent(1 - r.interval.high),
                         signed_percent(1 - r.interval.low));
    case Difference::slower:
      ++seen.slower;
      return fmt::format("slower: {} % ({}..{})", signed_percent(r.value - 1), signed_percent(r.interval.low - 1),
                         signed_percent(r.interval.high - 1));
    case Difference::equivalent:
      ++seen.same;
      return fmt::format("no difference (within {} %)", signed_percent(delta));
    case Difference::undecided:
      break;
  }
  ++seen.open;
  const bool alone = judge(r.interval, delta) != Difference::undecided;
  return fmt::format("undecided{}: time {:+.1f} to {:+.1f} %",
                     alone ? " after the correction for the number of sizes" : "", 100 * (r.interval.low - 1),
                     100 * (r.interval.high - 1));
}

std::string row_text(const Comparison& c, const ComparedCase& at, double delta, SeenLaunch& seen) {
  const VariantCell& without = at.variants[0];
  const VariantCell& with = at.variants[1];
  const Case& k = at.row_case;
  std::string text = fmt::format("# {} {}{}{} at {}: ", c.collective->name, name(k.dtype), k.op ? " " : "",
                                 k.op ? name(*k.op) : std::string_view{}, format_bytes(k.nbytes));
  if (without.usable()) text += fmt::format("{:.2f} us without", 1e6 * without.median_s);
  if (with.usable()) text += fmt::format(", {:.2f} us with", 1e6 * with.median_s);
  return fmt::format("{}: {}\n", text, gain_text(with, delta, seen));
}

/// Whether Open MPI sends other messages with the file, at all sizes or some that are evenly spread.
std::string fingerprint_lines(Fingerprinter& fingerprinter, const Emitted& file, const Emitted::Target& target,
                              const Config& config, SeenLaunch& seen) {
  std::string text;
  const std::size_t count = std::min(kMostFingerprints, target.sizes.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t nbytes = target.sizes[i * (target.sizes.size() - 1) / std::max<std::size_t>(count - 1, 1)];
    const auto op = target.collective->has_op ? std::optional<Op>(config.ops.front()) : std::nullopt;
    const FingerprintCase c{target.collective, nbytes, config.dtypes.front(), op, config.root};
    const SentMatrix without = fingerprinter.measure(c, {.forced = std::nullopt, .rules_file = ""});
    const SentMatrix with = fingerprinter.measure(c, {.forced = std::nullopt, .rules_file = file.path});
    const bool same = with == without;
    ++(same ? seen.unchanged : seen.changed);
    text += fmt::format("# fingerprint of {} at {}: {}\n", target.collective->name, format_bytes(nbytes),
                        same ? "the same messages with and without it" : "other messages with it");
  }
  return text;
}

/// Whether the library itself says that something else ran.
std::string shown_lines(const Comparison& c, SeenLaunch& seen) {
  std::string text;
  for (const ComparedCase& at : c.cases) {
    const ShownAlgorithm& without = at.variants[0].ran;
    const ShownAlgorithm& with = at.variants[1].ran;
    if (without.algorithm == kUnknownAlgorithm || with.algorithm == kUnknownAlgorithm) continue;
    const auto algorithms = [](const ShownAlgorithm& s) {
      return fmt::format("{}/{}/{}", s.algorithm, s.protocol, s.channels);
    };
    const bool same = algorithms(without) == algorithms(with);
    ++(same ? seen.unchanged : seen.changed);
    text += fmt::format("# ran at {}: {} without, {} with\n", format_bytes(at.row_case.nbytes), algorithms(without),
                        algorithms(with));
  }
  return text;
}

ExitCode print_verdict(const Emitted& file, const SeenLaunch& seen) {
  const auto verdict = [&](ExitCode code, const std::string& text) {
    print(fmt::format("# verdict on {}: {}\n", file.path, text));
    return code;
  };
  if (seen.failed > 0) return verdict(ExitCode::wrong_data, "fails: do not use it");
  if (seen.changed == 0 && seen.unchanged > 0 && seen.faster == 0)
    return verdict(ExitCode::wrong_data, "changes nothing: what runs is the same with and without it");
  const int sizes = seen.faster + seen.slower + seen.same + seen.open;
  if (seen.slower > 0) {
    return verdict(ExitCode::wrong_data, fmt::format("slower at {} of {} sizes: do not use it", seen.slower, sizes));
  }
  if (seen.faster > 0) {
    return verdict(ExitCode::good, fmt::format("pays at {} of {} sizes, slower at none", seen.faster, sizes));
  }
  if (seen.open == 0) return verdict(ExitCode::good, "no difference");
  return verdict(ExitCode::inconclusive, "undecided: no difference could be shown or excluded");
}

/// Open MPI says nothing when it ignores a file: only what it sends shows it.
std::string prove(const Emitted& file, const VerifySettings& settings, SeenLaunch& seen) {
  if (file.kind != Emitted::Kind::ompi_rules) return {};
  try {
    Fingerprinter fingerprinter(
        {.launch = launch_of(settings, file.nranks),
         .tmp = ".",
         .launch_timeout_s = settings.options.launch_timeout_s > 0 ? settings.options.launch_timeout_s : 60});
    std::string text;
    for (const Emitted::Target& target : file.targets)
      text += fingerprint_lines(fingerprinter, file, target, settings.configured.config, seen);
    return text;
  } catch (const Error& e) {
    return remark_lines(fmt::format("not proven by fingerprint: {}", e.what()));
  }
}

ExitCode verify_file(const Emitted& file, const VerifySettings& settings, const LaunchFolder& folder) {
  SeenLaunch seen;
  const std::uint64_t seed = seed_or_drawn(settings.configured.config.seed);
  std::vector<LaunchSeries> all;
  double total_s = 0;
  for (const Emitted::Target& target : file.targets) {
    all.push_back(series_for(file, target, settings, seed));
    total_s += 2 * all.back().launches * (all.back().measure_s + kLaunchOverhead);
  }
  if (all.empty()) return ExitCode::good;
  say("verifying {}: about {}", file.path, format_duration(total_s));
  print(fmt::format("#\n# Verification of {}: {} launches with it and {} without, in turn, seed {}; 95 % intervals\n",
                    file.path, all.front().launches, all.front().launches, seed));
  print(prove(file, settings, seen));
  std::size_t sizes = 0;
  for (const Emitted::Target& target : file.targets) sizes += target.sizes.size();
  if (static_cast<std::size_t>(seen.unchanged) == sizes) return print_verdict(file, seen);  // nothing to time
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(static_cast<int>(60 + 3 * total_s));
  for (LaunchSeries& series : all) {
    series.deadline = deadline;
    run_series(series, folder);
    for (const Comparison& c : compare_runs(*series.collective, series.variants, settings.options.delta,
                                            series.config.placement == Placements::in)) {
      for (const ComparedCase& at : c.cases) print(row_text(c, at, settings.options.delta, seen));
      if (file.kind == Emitted::Kind::tuner) print(shown_lines(c, seen));
    }
  }
  return print_verdict(file, seen);
}

}  // namespace

EnvironmentSettings read_user_environment() {
  EnvironmentSettings user;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view entry = *e;
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos) user.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return user;
}

ExitCode verify_emitted(std::span<const Emitted> files, const CompareOptions& options, const Configured& configured,
                        const EnvironmentSettings& user_environment) {
  if (detect_launch().launched()) {
    // Launched ranks may be bound to one core, and what they launch would inherit that. The kernel keeps what the
    // container or the batch system allows.
    cpu_set_t all;
    std::memset(&all, 0xFF, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
  }
  const LaunchFolder folder;
  ExitCode worst = ExitCode::good;
  for (const Emitted& file : files) {
    try {
      const ExitCode code = verify_file(file, {options, configured, user_environment}, folder);
      if (code == ExitCode::wrong_data || worst == ExitCode::good) worst = code;
    } catch (const Interrupted& e) {
      throw Interrupted(e.signal(), fmt::format("kept {0}; --verify-file {0} verifies it", file.path));
    }
  }
  return worst;
}

}  // namespace busbar
