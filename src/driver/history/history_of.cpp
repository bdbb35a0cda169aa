#include "driver/history/history_of.h"

#include "common/base/error.h"
#include "common/output/format.h"
#include "common/record/reported_environment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <unordered_map>

namespace busbar {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

bool usable(double time_s) { return std::isnormal(time_s) && time_s > 0; }

HistoryCell cell_of(const Collective& collective, const Row& row, const HalfResult& half, bool in_place) {
  HistoryCell cell;
  cell.scope = "all";
  cell.collective = collective.name;
  cell.dtype = name(row.row_case.dtype);
  cell.op = redop_text(row.row_case.op);
  cell.root = shown_root(collective, row.row_case.root);
  cell.nbytes = row.row_case.nbytes;
  cell.in_place = in_place;
  if (row.algorithm) cell.algorithm = row.algorithm->algorithm;
  cell.busbw = half.busbw;
  cell.wrong = half.wrong;
  cell.median_s = half.time_s;
  cell.epochs_s = {half.time_s};
  if (half.stats) {
    // The table's time is their mean.
    cell.median_s = half.stats->median_s;
    if (usable(cell.median_s)) cell.busbw = half.busbw * half.time_s / cell.median_s;
    cell.interval_s = half.stats->interval_s;
    cell.epochs_s = half.stats->epoch_medians_s;
  }
  return cell;
}

/// The same cell of another cycle of -N, or of another repetition of accept's.
void add_again(HistoryCell& cell, const HistoryCell& again) {
  const double bytes = cell.busbw * cell.median_s;
  cell.epochs_s.insert(cell.epochs_s.end(), again.epochs_s.begin(), again.epochs_s.end());
  cell.median_s = median(cell.epochs_s);
  cell.busbw = bytes / cell.median_s;
  cell.interval_s.reset();  // each knows its own time only
  if (again.wrong) cell.wrong = cell.wrong.value_or(0) + *again.wrong;
}

HistoryCell cell_of(const MeasuredCell& measured) {
  HistoryCell cell;
  cell.stage = name(measured.stage);
  cell.cell = measured.cell;
  cell.scope = measured.scope;
  cell.collective = measured.collective;
  cell.dtype = measured.dtype;
  cell.op = measured.op;
  cell.nbytes = measured.nbytes;
  cell.in_place = measured.in_place;
  cell.algorithm = measured.algorithm;
  cell.median_s = measured.median_s;
  cell.interval_s = measured.interval_s;
  cell.busbw = measured.busbw;
  cell.wrong = measured.wrong;
  cell.epochs_s = measured.epoch_medians_s;
  return cell;
}

}  // namespace

HistoryRun history_of_run(const RunInfo& info) {
  HistoryRun run;
  run.uuid = info.launch_uuid;
  run.time = info.start_time;
  run.kind = "perf";
  run.title = info.program;
  run.command = joined(info.args);
  run.version = info.version;
  run.backend = info.backend;
  run.library = info.library_version;
  if (info.config.stat) run.estimand = info.cadence + ", " + info.estimand;
  for (const RankInfo& rank : info.ranks) add_once(run.hosts, rank.hostname);
  if (!info.ranks.empty()) run.platform = info.ranks.front().device.name;
  run.nranks = info.nranks;
  run.environment = steady_environment(info.environment);
  return run;
}

void add_row(HistoryRun& run, const Config& config, const Collective& collective, const Row& row) {
  for (const bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config, row, in_place);
    if (half == nullptr) continue;
    HistoryCell cell = cell_of(collective, row, *half, in_place);
    if (!usable(cell.median_s)) continue;
    const auto earlier = std::find_if(run.cells.begin(), run.cells.end(),
                                      [&](const HistoryCell& c) { return row.cycle > 0 && c.key() == cell.key(); });
    if (earlier == run.cells.end()) {
      run.cells.push_back(std::move(cell));
    } else {
      add_again(*earlier, cell);
    }
  }
}

void add_comparison(HistoryRun& run, const Comparison& comparison) {
  const Collective& collective = *comparison.collective;
  for (const ComparedCase& compared : comparison.cases) {
    const Case& c = compared.row_case;
    for (std::size_t i = 0; i < compared.variants.size(); ++i) {
      const VariantCell& variant = compared.variants[i];
      if (!variant.why_not.empty() || !usable(variant.median_s)) continue;
      HistoryCell& cell = run.cells.emplace_back();
      cell.scope = comparison.variants[i].label;
      cell.collective = collective.name;
      cell.dtype = name(c.dtype);
      cell.op = redop_text(c.op);
      cell.root = shown_root(collective, c.root);
      cell.nbytes = c.nbytes;
      cell.in_place = compared.in_place;
      if (variant.ran.algorithm != "unknown") cell.algorithm = variant.ran.algorithm;
      cell.median_s = variant.median_s;
      cell.busbw = static_cast<double>(collective.algorithm_bytes(c.problem)) *
                   collective.bus_factor(c.problem.nranks) / variant.median_s / 1e9;
      cell.wrong = static_cast<std::int64_t>(variant.wrong);
      cell.epochs_s = variant.rounds_s;
    }
  }
}

Outcome outcome_of_exit(int exit_code) {
  if (exit_code == static_cast<int>(ExitCode::good)) return Outcome::pass;
  return exit_code == static_cast<int>(ExitCode::inconclusive) ? Outcome::inconclusive : Outcome::fail;
}

HistoryRun history_of_accept(const AcceptResult& result, std::string_view tool) {
  HistoryRun run;
  run.time = result.start_time;
  run.kind = tool;
  run.title = result.plan.title.empty() ? result.plan.file : result.plan.title;
  run.command = joined(result.command);
  run.version = result.version;
  run.backend = result.backend;
  run.library = result.library;
  run.platform = result.platform;
  if (!result.cells.empty()) run.estimand = "accept";
  for (const AcceptResult::Host& host : result.hosts) {
    add_once(run.hosts, host.name);
    run.nranks += static_cast<int>(host.ranks.size());
  }
  run.environment = steady_environment(result.environment);
  run.outcome = result.outcome;
  std::unordered_map<std::string, std::size_t> index;
  for (const MeasuredCell& measured : result.cells) {
    HistoryCell cell = cell_of(measured);
    if (!usable(cell.median_s)) continue;
    if (cell.epochs_s.empty()) cell.epochs_s = {cell.median_s};
    const auto [at, fresh] = index.try_emplace(cell.key(), run.cells.size());
    if (fresh) {
      run.cells.push_back(std::move(cell));
    } else {
      add_again(run.cells[at->second], cell);
    }
  }
  run.criteria = result.criteria;
  return run;
}

std::vector<std::string> steady_environment(const std::vector<std::string>& environment) {
  static constexpr std::array<std::string_view, 4> kSettings{"NCCL_", "CUDA_", "UCX_", "OMPI_MCA_"};
  static constexpr std::array<std::string_view, 6> kLaunchers{
      "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_prte_", "OMPI_MCA_initial_wdir", "OMPI_MCA_shmem_"};
  std::vector<std::string> steady;
  for (std::string& variable : reported_environment(environment)) {
    const auto starts = [&](std::string_view prefix) { return variable.starts_with(prefix); };
    if (std::any_of(kSettings.begin(), kSettings.end(), starts) &&
        std::none_of(kLaunchers.begin(), kLaunchers.end(), starts)) {
      steady.push_back(std::move(variable));
    }
  }
  std::sort(steady.begin(), steady.end());
  return steady;
}

}  // namespace busbar
