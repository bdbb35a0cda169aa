#include "common/record/history_run.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/record/accept_fields.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

constexpr std::string_view kDocument = "history-run";

}  // namespace

bool is_kept(double time_s) {
  constexpr double kLongest = 1e9;  // [s] 30 years
  return std::isnormal(time_s) && time_s > 0 && time_s < kLongest;
}

void add_again(Cell& cell, const Cell& again) {
  const double bytes = cell.busbw * cell.median_s;
  cell.epoch_medians_s.insert(cell.epoch_medians_s.end(), again.epoch_medians_s.begin(), again.epoch_medians_s.end());
  cell.median_s = median(cell.epoch_medians_s);
  cell.busbw = bytes / cell.median_s;
  cell.interval_s.reset();  // each covers only its own time
  if (again.wrong) cell.wrong = cell.wrong.value_or(0) + *again.wrong;
}

Outcome outcome_of_exit(int exit_code) {
  if (exit_code == static_cast<int>(ExitCode::good)) return Outcome::pass;
  return exit_code == static_cast<int>(ExitCode::inconclusive) ? Outcome::inconclusive : Outcome::fail;
}

std::vector<std::string> steady_environment(const std::vector<std::string>& environment) {
  static constexpr std::array<std::string_view, 4> kSettings{"NCCL_", "CUDA_", "UCX_", "OMPI_MCA_"};
  static constexpr std::array<std::string_view, 6> kLaunchers{
      "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_prte_", "OMPI_MCA_initial_wdir", "OMPI_MCA_shmem_"};
  std::vector<std::string> steady;
  for (std::string& variable : reported_environment(environment)) {
    const auto starts = [&](std::string_view prefix) { return variable.starts_with(prefix); };
    if (std::ranges::any_of(kSettings, starts) && std::ranges::none_of(kLaunchers, starts))
      steady.push_back(std::move(variable));
  }
  std::ranges::sort(steady);
  return steady;
}

HistoryRun history_of_accept(const AcceptResult& result, std::string_view tool) {
  HistoryRun run;
  run.time = result.start_time;
  run.kind = tool;
  run.title = result.plan.title_or_file();
  run.command = joined_words(result.command);
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
  for (auto [one, repetitions] : grouped(result.cells, [](const Cell& c) { return identity(c); })) {
    std::erase_if(repetitions, [](const Cell* c) { return !is_kept(c->median_s); });
    for (const Cell* measured : repetitions) {
      Cell cell = *measured;
      if (cell.epoch_medians_s.empty()) cell.epoch_medians_s = {cell.median_s};
      if (measured == repetitions.front()) {
        run.cells.push_back(std::move(cell));
      } else {
        add_again(run.cells.back(), cell);
      }
    }
    if (repetitions.size() < 2) continue;
    const TypicalCell number = typical(repetitions);
    run.cells.back().median_s = number.median_s;
    run.cells.back().busbw = number.busbw;
  }
  run.criteria = result.criteria;
  return run;
}

std::string history_run_json(const HistoryRun& run) {
  Json json = envelope_json({kDocument, run.time, run.hosts, {}});
  json["run"] = fields_json(run);
  return dump_json(json);
}

HistoryRun read_history_run_json(std::string_view text, const std::string& name) {
  const Json document = read_document(text, name, kDocument);
  return record_at<HistoryRun>(JsonPlace(document, "", name, "`busbar accept`").at("run"));
}

}  // namespace busbar
