#include "driver/compare/launch_rounds.h"

#include "collectives/dtype.h"
#include "collectives/op.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/measure/plan.h"
#include "common/output/progress.h"
#include "common/processes/child.h"
#include "common/statistics/distributions.h"
#include "driver/command/subcommand.h"
#include "driver/compare/rounds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string_view>

namespace busbar {
namespace {

constexpr int kLeastLaunches = 6;
constexpr double kError = 0.05;  // of all cells together

VariantCell gather(const LaunchedVariant& of, const Cell& like) {
  VariantCell cell;
  cell.why_not = of.why_not;
  if (!cell.why_not.empty()) return cell;
  for (const RunFile& run : of.runs) {
    const Cell* found = find_cell(run, like);
    if (found == nullptr) {
      const auto skipped = std::ranges::find_if(run.skipped, [&](const SkippedCell& skip) {
        return skip.dtype == like.dtype && skip.op == like.op && skip.root == like.root;
      });
      cell.why_not = skipped == run.skipped.end() ? "the launch did not measure this row" : skipped->reason;
      return cell;
    }
    cell.wrong += static_cast<std::uint64_t>(found->wrong.value_or(0));
    cell.rounds_s.push_back(found->median_s);
    if (!found->algorithm.empty()) {
      cell.ran = {
          .algorithm = found->algorithm, .protocol = found->protocol, .channels = found->channels, .predicted_s = {}};
    }
  }
  return cell;
}

Case case_of(const Collective& collective, const Cell& cell, const RunFile& run) {
  // What counts for a bandwidth: in pingpong both ways at once.
  static const Traffic kBoth = [] {
    Traffic traffic;
    traffic.pattern = PingpongPattern::both;
    return traffic;
  }();
  const std::optional<DType> dtype = parse_dtype(cell.dtype);
  const std::optional<Op> op = cell.op == "none" ? std::nullopt : parse_op(cell.op);
  if (!dtype || (cell.op != "none" && !op)) {
    throw_not_possible(fmt::format("{}: unknown type or operation {} {}", run.name, cell.dtype, cell.op));
  }
  Case c;
  c.dtype = *dtype;
  c.op = op;
  c.root = collective.has_root ? cell.root : 0;
  c.requested_bytes = cell.nbytes;
  c.nbytes = cell.nbytes;
  c.problem = {.count = cell.count,
               .elem_size = size_of(*dtype),
               .nranks = run.nranks,
               .root = c.root,
               .traffic = run.pattern == name(PingpongPattern::both) ? &kBoth : nullptr};
  return c;
}

}  // namespace

std::vector<Comparison> compare_runs(const Collective& collective, std::span<const LaunchedVariant> variants,
                                     double delta, bool in_place) {
  if (variants.empty() || variants.front().runs.empty())
    throw_not_possible("no launch without settings measured anything: there is nothing to compare with");
  const RunFile& first = variants.front().runs.front();
  Comparison empty;
  empty.collective = &collective;
  empty.backend = first.backend;
  empty.nranks = first.nranks;
  empty.nnodes = static_cast<int>(std::set<std::string>(first.hosts.begin(), first.hosts.end()).size());
  empty.delta = delta;
  empty.between_launches = true;
  for (const LaunchedVariant& of : variants) {
    empty.variants.push_back(of.variant);
    for (const RunFile& run : of.runs) {
      const std::string what = difference(first, run);
      if (what.empty()) continue;
      throw_not_possible(fmt::format(
          "the launches did not measure the same: {}; check that the launch command starts all alike", what));
    }
  }

  std::vector<Comparison> comparisons;
  for (const Cell& cell : first.cells) {
    if (cell.in_place != in_place) continue;
    ComparedCase compared;
    compared.row_case = case_of(collective, cell, first);
    compared.in_place = in_place;
    compared.rounds = static_cast<int>(variants.front().runs.size());
    const auto table_of = [](const Case& c) { return std::tie(c.dtype, c.op, c.root); };
    const bool same =
        !comparisons.empty() && table_of(comparisons.back().cases.front().row_case) == table_of(compared.row_case);
    if (!same) comparisons.push_back(empty);
    std::vector<ComparedCase>& cases = comparisons.back().cases;
    // Sizes below one element per rank round to the same case.
    if (!cases.empty() && cases.back().row_case.nbytes == compared.row_case.nbytes) continue;
    for (const LaunchedVariant& of : variants) compared.variants.push_back(gather(of, cell));
    judge_rounds(compared, delta, true);
    cases.push_back(std::move(compared));
  }
  for (Comparison& comparison : comparisons) conclude(comparison);
  return comparisons;
}

int launches_for(std::size_t cells) {
  const auto p = [](int n) { return 2 * student_t_upper(2 * std::sqrt(n), n - 1); };
  int n = kLeastLaunches;
  while (p(n) * static_cast<double>(cells) > kError) ++n;
  return n;
}

void run_series(LaunchSeries& series, const LaunchFolder& folder) {
  TerminalLine line;
  std::vector<std::size_t> active(series.variants.size());
  std::iota(active.begin(), active.end(), std::size_t{0});
  const int planned = series.launches * static_cast<int>(active.size());
  int number = 0;
  for (int round = 0; round < series.launches; ++round) {
    if (std::chrono::steady_clock::now() >= series.deadline) {
      series.out_of_time = true;
      return;
    }
    for (const std::size_t v : turn_order(series.seed, 0, round, active)) {
      LaunchedVariant& of = series.variants[v];
      ++number;
      line.show(
          fmt::format("{}: launch {} of at most {}, {}", series.collective->name, number, planned, of.variant.label));
      const std::string results = folder.file(fmt::format("launch{}.json", number));
      LaunchedRun outcome = launch_run(launch_words(series, of, results, number), results,
                                       fmt::format("launch {}", number), series.timeout_s);
      if (outcome.run) {
        of.runs.push_back(std::move(*outcome.run));
        continue;
      }
      if (v == 0) {
        throw Error(outcome.code,
                    fmt::format("the launch of {} without settings failed, so there is nothing to compare with: {}",
                                series.collective->name, outcome.why_not));
      }
      of.why_not = outcome.why_not;
      of.runs.clear();
      std::erase(active, v);
    }
  }
}

std::vector<std::string> launch_words(const LaunchSeries& series, const LaunchedVariant& variant,
                                      const std::string& results, int number) {
  constexpr int kMostSeed = 1'000'000'000;
  // What one launch does not share with the others: its files, its limits of time, the seed.
  std::vector<std::string_view> of_the_whole{"max-time",  "cell-time", "seed",     "output_file",
                                             "csv",       "history",   "dry-run",  "stat",
                                             "placement", "topology",  "launcher", "meet-key"};
  const std::vector<std::uint64_t>& sizes = series.config.sizes;
  if (!sizes.empty())
    of_the_whole.insert(of_the_whole.end(), {"sizes", "minbytes", "maxbytes", "stepbytes", "stepfactor"});
  std::vector<std::string> command = variant.prefix;
  command.push_back(program_beside(fmt::format("{}_perf", series.collective->name)).string());
  for (std::string& word : option_words(series.options, of_the_whole)) command.push_back(std::move(word));
  command.insert(command.end(), {"--stat", fmt::format("--placement={}", name(series.config.placement))});
  if (!sizes.empty()) command.push_back(fmt::format("--sizes={}", fmt::join(sizes, ",")));
  command.push_back(fmt::format("--max-time={:.3g}", series.measure_s));
  command.push_back(fmt::format("--cell-time={:.3g}", series.measure_s));
  command.push_back(fmt::format("--seed={}", 1 + (series.seed + static_cast<std::uint64_t>(number)) % kMostSeed));
  command.emplace_back("--show-algo");
  command.push_back("--output_file=" + results);
  return launch_command(series.launch, series.nranks, command);
}

std::size_t planned_cells(const Config& config, const Collective& collective) {
  if (!collective.moves_data) return 1;
  const std::size_t ops = collective.has_op ? config.ops.size() : 1;
  return sweep_sizes(config, config.maxbytes).size() * config.dtypes.size() * ops;
}

double measuring_time_s(std::size_t cells) {
  // At least ten epochs of 10 ms with their warm-up, for each cell.
  constexpr double kCell = 0.3;
  return std::max(0.5, kCell * static_cast<double>(cells));
}

}  // namespace busbar
