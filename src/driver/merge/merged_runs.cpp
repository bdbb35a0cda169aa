#include "driver/merge/merged_runs.h"

#include "common/base/error.h"
#include "common/statistics/interval.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace busbar {
namespace {

/// Of the bootstrap for few launches: the same files give the same interval.
constexpr std::uint64_t kSeed = 1;
/// A machine whose canary differs by more than this from the other launches' was another machine, or a busier one.
constexpr double kCanaryBand = 0.10;

[[noreturn]] void fail(const std::string& text) { throw Error(ExitCode::bad_config, text); }

template <class Value>
void require_same(const RunFile& a, const RunFile& b, std::string_view what, const Value& of_a, const Value& of_b) {
  if (of_a == of_b) return;
  fail(fmt::format("{} and {} did not measure the same thing: {} {} and {}", a.name, b.name, what, of_a, of_b));
}

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
    require_same(first, run, "collective", first.collective, run.collective);
    require_same(first, run, "ranks", first.nranks, run.nranks);
    require_same(first, run, "backend", first.backend, run.backend);
    require_same(first, run, "cadence", first.cadence, run.cadence);
    require_same(first, run, "estimand", first.estimand, run.estimand);
  }
}

/// "Open MPI 4.1.4 (a.json), Open MPI 4.1.5 (b.json, c.json)"; empty where all are alike.
template <class Of>
std::string differing(const std::vector<RunFile>& runs, Of of) {
  std::vector<std::string> values;
  std::vector<std::vector<std::string>> files;
  for (const RunFile& run : runs) {
    const std::string value = of(run);
    const auto found = std::find(values.begin(), values.end(), value);
    const auto at = static_cast<std::size_t>(found - values.begin());
    if (found == values.end()) {
      values.push_back(value);
      files.emplace_back();
    }
    files[at].push_back(run.name);
  }
  if (values.size() < 2) return {};
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    texts.push_back(fmt::format("{} ({})", values[i], fmt::join(files[i], ", ")));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string host_set(const RunFile& run) {
  const std::set<std::string> hosts(run.hosts.begin(), run.hosts.end());
  return fmt::format("{}", fmt::join(hosts, ","));
}

/// Canaries are compared before times: a launch on a slower machine is no evidence about the library.
template <class Of>
void compare_canaries(const std::vector<RunFile>& runs, std::string_view what, Of of,
                      std::vector<std::string>& warnings) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<double> others;
    for (std::size_t j = 0; j < runs.size(); ++j) {
      if (j != i && of(runs[j])) others.push_back(*of(runs[j]));
    }
    if (!of(runs[i]) || others.empty()) continue;
    const double usual = median(others);
    const double ratio = *of(runs[i]) / usual;
    if (ratio <= 1 + kCanaryBand && ratio >= 1 / (1 + kCanaryBand)) continue;
    warnings.push_back(
        fmt::format("launch {} ({}) ran on a machine {:.0f} % {}: its {} canary took {:.1f} us, the "
                    "others' {:.1f} us",
                    i + 1, runs[i].name, 100 * (std::max(ratio, 1 / ratio) - 1), ratio > 1 ? "slower" : "faster", what,
                    1e6 * *of(runs[i]), 1e6 * usual));
  }
}

const RunCell* find_cell(const RunFile& run, const RunCell& like) {
  const auto found =
      std::find_if(run.cells.begin(), run.cells.end(), [&](const RunCell& c) { return c.same_cell(like); });
  return found == run.cells.end() || !found->stats ? nullptr : &*found;
}

std::string describe(const RunCell& c) {
  return fmt::format("{} {} {} {}", c.nbytes, c.dtype, c.redop, c.in_place ? "in place" : "out of place");
}

MergedCell merge_cell(const std::vector<const RunCell*>& cells, double launch_cost_s) {
  MergedCell merged;
  merged.cell = *cells.front();
  std::vector<std::vector<double>> epochs;
  std::vector<double> epoch_costs_s;
  for (const RunCell* cell : cells) {
    merged.wrong += cell->wrong.value_or(0);
    merged.launch_medians_s.push_back(median(cell->stats->epoch_medians_s));
    epochs.push_back(cell->stats->epoch_medians_s);
    epoch_costs_s.push_back(cell->stats->calls_per_epoch * cell->stats->median_s);
  }
  merged.estimate = merge_launches(epochs, kSeed);
  merged.best_epochs = best_epochs_per_launch(launch_cost_s, median(epoch_costs_s), merged.estimate.variance_between,
                                              merged.estimate.variance_within);
  return merged;
}

}  // namespace

MergedRuns merge_runs(std::vector<RunFile> runs, double launch_cost_s) {
  check(runs);
  MergedRuns merged;
  const std::string libraries = differing(runs, [](const RunFile& r) { return r.library; });
  if (!libraries.empty()) merged.warnings.push_back("the library differs: " + libraries);
  const std::string hosts = differing(runs, host_set);
  if (!hosts.empty()) merged.warnings.push_back("the hosts differ: " + hosts);
  compare_canaries(
      runs, "spin", [](const RunFile& r) { return r.spin_s; }, merged.warnings);
  compare_canaries(
      runs, "copy", [](const RunFile& r) { return r.copy_s; }, merged.warnings);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& flag : runs[i].flags) {
      merged.warnings.push_back(fmt::format("launch {} ({}) was disturbed: {}", i + 1, runs[i].name, flag));
    }
  }
  std::vector<RunCell> seen;
  for (const RunFile& of : runs) {
    for (const RunCell& cell : of.cells) {
      const auto same = [&](const RunCell& other) { return other.same_cell(cell); };
      if (!cell.stats || std::any_of(seen.begin(), seen.end(), same)) continue;
      seen.push_back(cell);
      std::vector<const RunCell*> cells;
      for (const RunFile& run : runs) {
        if (const RunCell* found = find_cell(run, cell)) cells.push_back(found);
      }
      if (cells.size() < runs.size()) {
        merged.warnings.push_back(
            fmt::format("left out: {}: only {} of {} launches measured it", describe(cell), cells.size(), runs.size()));
        continue;
      }
      merged.cells.push_back(merge_cell(cells, launch_cost_s));
    }
  }
  if (merged.cells.empty()) fail("the launches have no row in common: their sizes, types or operations differ");
  merged.runs = std::move(runs);
  return merged;
}

}  // namespace busbar
