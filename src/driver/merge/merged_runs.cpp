#include "driver/merge/merged_runs.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/format.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/record/accept_fields.h"
#include "common/record/json_fields.h"
#include "common/statistics/interval.h"
#include "common/statistics/trend.h"
#include "driver/command/subcommand.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

namespace busbar {
namespace {

/// A machine whose canary differs by more than this from the other launches' was another machine, or a busier one.
constexpr double kCanaryBand = 0.10;
/// [s] Three times a minute, which a busy machine's correlation time may be: so far apart launches are worth nearly
/// what independent ones are (docs/evidence/statistics.md).
constexpr double kApart = 180;

[[noreturn]] void fail(const std::string& text) { throw_bad_config(text); }

void check(const std::vector<RunFile>& runs) {
  if (runs.size() < 2)
    fail("merge combines launches: name at least two files that -J of a benchmark with --stat wrote");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunFile& run = runs[i];
    if (!run.stat) fail(fmt::format("{}: written without --stat: there are no epochs to combine", run.name));
    if (!run.exit_code) fail(fmt::format("{}: the run did not end; leave it out", run.name));
    for (std::size_t j = 0; j < i; ++j) {
      if (runs[j].launch_uuid == run.launch_uuid) {
        fail(fmt::format("{} and {} are the same launch ({}): it would count twice", runs[j].name, run.name,
                         run.launch_uuid));
      }
    }
    const RunFile& first = runs.front();
    const std::string what = difference(first, run);
    if (!what.empty()) fail(fmt::format("{} and {} did not measure the same thing: {}", first.name, run.name, what));
  }
}

/// "Open MPI 4.1.4 (a.json), Open MPI 4.1.5 (b.json, c.json)"; empty if all are alike.
template <class Of>
std::string differing(const std::vector<RunFile>& runs, Of of) {
  const auto values = grouped(runs, of);
  if (values.size() < 2) return {};
  return joined_words(mapped(values,
                             [](const auto& value) {
                               return fmt::format("{} ({})", value.first,
                                                  fmt::join(mapped(value.second, &RunFile::name), ", "));
                             }),
                      "; ");
}

/// Canaries are compared before times: a launch on a slower machine is no evidence about the library.
void compare_canaries(const std::vector<RunFile>& runs, std::string_view what, std::optional<double> RunFile::*took_s,
                      std::vector<std::string>& warnings) {
  std::vector<std::string> odd;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto [ratio, usual_s] = canary_ratio(runs, i, took_s).value_or(CanaryRatio{});
    if (ratio <= 1 + kCanaryBand && ratio >= 1 / (1 + kCanaryBand)) continue;
    odd.push_back(
        fmt::format("launch {} ({}) ran on a machine {:.0f} % {}: its {} canary took {:.1f} us, the others' {:.1f} us",
                    i + 1, runs[i].name, 100 * (std::max(ratio, 1 / ratio) - 1), ratio > 1 ? "slower" : "faster", what,
                    1e6 * *(runs[i].*took_s), 1e6 * usual_s));
  }
  if (2 * odd.size() <= runs.size()) {
    std::ranges::move(odd, std::back_inserter(warnings));
    return;
  }
  // If most are odd, none is.
  std::vector<double> all_s;
  for (const RunFile& run : runs) {
    if (run.*took_s) all_s.push_back(*(run.*took_s));
  }
  const auto [least, most] = std::ranges::minmax(all_s);
  warnings.push_back(fmt::format("the machine was another in most launches: the {} canary took {:.1f} to {:.1f} us",
                                 what, 1e6 * least, 1e6 * most));
}

/// Launches close in time see one state of the machine, and their interval covers only that.
std::string near_in_time(const std::vector<RunFile>& runs) {
  std::vector<double> starts_s;
  for (const RunFile& run : runs) {
    const auto start = parse_local_timestamp(run.start_time);
    if (!start) return {};
    starts_s.push_back(static_cast<double>(*start));
  }
  std::ranges::sort(starts_s);
  const std::size_t apart = bursts(starts_s, kApart).back() + 1;
  if (2 * apart > runs.size() + 1) return {};
  return fmt::format(
      "{} launches began within {:.0f} s and saw only {} of the machine, so their spread misses slow drift; leave "
      "{:.0f} s between launches (busbar repeat --spaced)",
      runs.size(), starts_s.back() - starts_s.front(), counted(apart, "state"), kApart);
}

/// One line for each kind of disturbance: with many launches a busy machine disturbs them all alike.
void tell_disturbances(const std::vector<RunFile>& runs, std::vector<std::string>& warnings) {
  struct Flag {
    std::size_t launch;
    std::string text;
  };
  std::vector<Flag> flags;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& flag : runs[i].flags) flags.push_back({i, flag});
  }
  for (const auto& [kind, alike] : grouped(flags, [](const Flag& f) { return f.text.substr(0, f.text.find(':')); })) {
    const auto [first, text] = *alike.front();
    const auto launches = mapped(alike, &Flag::launch);
    const std::size_t others = std::set<std::size_t>(launches.begin(), launches.end()).size() - 1;
    const std::string warning = fmt::format("launch {} ({}) was disturbed: {}", first + 1, runs[first].name, text);
    warnings.push_back(others == 0 ? warning
                                   : fmt::format("{}; {} more of {} by {}", warning, others, runs.size(), kind));
  }
}

MergedCell merge_cell(const std::vector<const Cell*>& cells, double launch_cost_s) {
  MergedCell merged;
  merged.cell = *cells.front();
  std::vector<std::vector<double>> epochs;
  std::vector<double> epoch_costs_s;
  for (const Cell* cell : cells) {
    merged.wrong += cell->wrong.value_or(0);
    merged.launch_medians_s.push_back(median(cell->epoch_medians_s));
    epochs.push_back(cell->epoch_medians_s);
    epoch_costs_s.push_back(cell->calls_per_epoch * cell->median_s);
  }
  merged.estimate = merge_launches(epochs);
  merged.best_epochs = best_epochs_per_launch(launch_cost_s, median(epoch_costs_s), merged.estimate.variance_between,
                                              merged.estimate.variance_within);
  return merged;
}

std::string row_text(const MergedCell& m) {
  const std::string start = fmt::format("{} {:>9}", launches_columns(m.cell), m.launch_medians_s.size());
  if (m.wrong > 0) return fmt::format("{}  WRONG: {} wrong elements\n", start, m.wrong);
  const LaunchesEstimate& e = m.estimate;
  const auto us = [](double time_s) { return fit_number(1e6 * time_s, 11); };
  const Interval i = e.interval.value_or(Interval{});
  return fmt::format("{} {:>11} {:>11} {:>11} {:>7} {:>9.1f} {:>8.1f} {:>7}\n", start, us(e.median),
                     e.interval ? us(i.low) : "-", e.interval ? us(i.high) : "-",
                     e.interval ? fmt::format("{:.1f}", 100 * ((i.high - i.low) / 2 / e.median)) : "-",
                     100 * std::sqrt(e.variance_between), 100 * std::sqrt(e.variance_within), m.best_epochs);
}

Json optional_time(const std::optional<double>& time_s) { return time_s ? json_seconds(*time_s) : Json(nullptr); }

Json launch_json(const RunFile& run) {
  return {{"file", run.name},
          {"launch_uuid", run.launch_uuid},
          {"start_time", json_text_or_null(run.start_time)},
          {"library", run.library},
          {"hosts", run.hosts},
          {"spin_median_s", optional_time(run.spin_s)},
          {"copy_median_s", optional_time(run.copy_s)},
          {"flags", run.flags}};
}

Json merged_cell_json(const MergedCell& m) {
  const LaunchesEstimate& e = m.estimate;
  const bool good = m.wrong == 0;
  Json json = launches_json(m);
  json.update({{"median_s", good ? json_seconds(e.median) : Json(nullptr)},
               {"interval_s", good ? json_seconds(e.interval) : Json(nullptr)},
               {"few_launches", e.few},
               {"relative_sd_between", json_number(std::sqrt(e.variance_between))},
               {"relative_sd_within", json_number(std::sqrt(e.variance_within))},
               {"best_epochs_per_launch", m.best_epochs}});
  return json;
}

std::vector<OwnOption> own_options(double& launch_cost_s) {
  return {{"launch-cost", "SECONDS", "cost of a launch besides measuring, for the best number of epochs (default: 2)",
           into(launch_cost_s, parse_duration)}};
}

int merge(const CommandLine& line, double launch_cost_s) {
  const std::string output_file = only_output_file(line, "merge");
  const auto read = [](const std::string& file) { return read_run(read_file(file, "the run file"), file); };
  const MergedRuns merged = merge_runs(mapped(line.words, read), launch_cost_s);
  if (!output_file.empty()) write_new_file(output_file, "-J", merged_json(merged));
  if (!write_stdout(merged_text(merged)))
    throw Error(ExitCode::results_lost, "stdout takes no more output; the table is incomplete");
  const bool wrong = std::ranges::any_of(merged.cells, [](const MergedCell& c) { return c.wrong > 0; });
  return static_cast<int>(wrong ? ExitCode::wrong_data : ExitCode::good);
}

}  // namespace

Json launches_json(const MergedCell& m) {
  Json json = fields_json(identity(m.cell));
  json.update({{"wrong", m.wrong}, {"launch_medians_s", json_seconds(m.launch_medians_s)}});
  return json;
}

int best_epochs_per_launch(double launch_cost_s, double epoch_cost_s, double variance_between, double variance_within) {
  constexpr int kMostEpochs = 10000;
  if (variance_within <= 0 || launch_cost_s <= 0) return 1;
  if (variance_between <= 0 || epoch_cost_s <= 0) return kMostEpochs;
  const double best = std::ceil(std::sqrt(launch_cost_s / epoch_cost_s * (variance_within / variance_between)));
  return static_cast<int>(std::clamp(best, 1.0, static_cast<double>(kMostEpochs)));
}

MergedRuns merge_runs(std::vector<RunFile> runs, double launch_cost_s) {
  check(runs);
  MergedRuns merged;
  const std::string libraries = differing(runs, &RunFile::library);
  if (!libraries.empty()) merged.warnings.push_back("the library differs: " + libraries);
  const std::string hosts = differing(runs, [](const RunFile& run) {
    return fmt::format("{}", fmt::join(std::set<std::string>(run.hosts.begin(), run.hosts.end()), ","));
  });
  if (!hosts.empty()) merged.warnings.push_back("the hosts differ: " + hosts);
  if (runs.size() < kEnoughLaunches)
    merged.warnings.push_back(fmt::format("{} launches give no interval: {} do", runs.size(), kEnoughLaunches));
  const std::string near = near_in_time(runs);
  if (!near.empty()) merged.warnings.push_back(near);
  compare_canaries(runs, "spin", &RunFile::spin_s, merged.warnings);
  compare_canaries(runs, "copy", &RunFile::copy_s, merged.warnings);
  tell_disturbances(runs, merged.warnings);
  // A launch's cells, the first of those that are the same.
  const auto cells_of_runs = mapped(runs, [](const RunFile& run) {
    std::map<CellIdentity, const Cell*> cells;
    for (const Cell& cell : run.cells) cells.try_emplace(identity(cell), &cell);
    return cells;
  });
  std::set<CellIdentity> seen;
  for (const RunFile& of : runs) {
    for (const Cell& cell : of.cells) {
      if (cell.epoch_medians_s.empty() || !seen.insert(identity(cell)).second) continue;
      std::vector<const Cell*> cells;
      for (const auto& known : cells_of_runs) {
        const auto found = known.find(identity(cell));
        if (found != known.end() && !found->second->epoch_medians_s.empty()) cells.push_back(found->second);
      }
      if (cells.size() < runs.size()) {
        merged.warnings.push_back(fmt::format("left out: {} {} {} {}: only {} of {} launches measured it", cell.nbytes,
                                              cell.dtype, cell.op, cell.in_place ? "in place" : "out of place",
                                              cells.size(), runs.size()));
        continue;
      }
      merged.cells.push_back(merge_cell(cells, launch_cost_s));
    }
  }
  if (merged.cells.empty()) fail("the launches have no row in common: their sizes, types or operations differ");
  merged.runs = std::move(runs);
  return merged;
}

std::string launches_line(std::string_view command, const std::vector<RunFile>& runs) {
  const RunFile& first = runs.front();
  return fmt::format("# busbar version {} {}: {} launches of {} on {} ranks, backend={} library={}\n", BUSBAR_VERSION,
                     command, runs.size(), first.collective, first.nranks, first.backend, first.library);
}

std::string launches_columns(const Cell& c) {
  return fmt::format("{:>12} {:>9} {:>7} {:>5} {:>5}", c.nbytes, c.dtype, c.op, c.root, place(c.in_place));
}

std::optional<CanaryRatio> canary_ratio(const std::vector<RunFile>& runs, std::size_t launch,
                                        std::optional<double> RunFile::*took_s) {
  std::vector<double> others;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i != launch && runs[i].*took_s) others.push_back(*(runs[i].*took_s));
  }
  if (!(runs[launch].*took_s) || others.empty()) return std::nullopt;
  const double usual_s = median(others);
  return CanaryRatio{*(runs[launch].*took_s) / usual_s, usual_s};
}

std::string merged_text(const MergedRuns& merged) {
  const RunFile& first = merged.runs.front();
  std::string text = launches_line("merge", merged.runs);
  text += fmt::format("# cadence: {}; a time is {}\n", first.cadence, first.estimand);
  text +=
      "# median: of the launches' medians; interval: 95 %, between launches. sd between launches (without what\n"
      "# their epochs explain) and of epochs within one, of the median; epochs: per launch, for the most precision\n"
      "# in the time.\n#\n";
  text += fmt::format("#{:>11} {:>9} {:>7} {:>5} {:>5} {:>9} {:>11} {:>11} {:>11} {:>7} {:>9} {:>8} {:>7}\n", "size",
                      "type", "redop", "root", "place", "launches", "median us", "from", "to", "+-%", "between %",
                      "within %", "epochs");
  for (const MergedCell& cell : merged.cells) text += row_text(cell);
  text += "#\n";
  for (const std::string& warning : merged.warnings) text += remark_lines(warning);
  return text;
}

std::string merged_json(const MergedRuns& merged) {
  const RunFile& first = merged.runs.front();
  Envelope envelope{"merge", "", {}, own_command()};
  for (const RunFile& run : merged.runs) {
    for (const std::string& host : run.hosts) add_once(envelope.where, host);
    if (envelope.time.empty() || (!run.start_time.empty() && run.start_time < envelope.time))
      envelope.time = run.start_time;
  }
  Json document = envelope_json(envelope);
  BUSBAR_FIELDS(members_of(document), first, collective, backend, nranks, cadence, estimand);
  document.update({{"confidence", 0.95},
                   {"launches", json_list(merged.runs, launch_json)},
                   {"warnings", merged.warnings},
                   {"cells", json_list(merged.cells, merged_cell_json)}});
  return dump_document(document);
}

int run_merge(int argc, char** argv) {
  double launch_cost_s = 2;
  return run_alone(argc, argv, "merge", own_options(launch_cost_s),
                   [&](const CommandLine& line) { return merge(line, launch_cost_s); });
}

}  // namespace busbar
