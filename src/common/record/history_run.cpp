#include "common/record/history_run.h"

#include "common/base/error.h"
#include "common/record/accept_fields.h"
#include "common/record/json_fields.h"
#include "common/record/reported_environment.h"
#include "common/statistics/series.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace busbar {

std::string HistoryCell::key() const {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", stage, cell, scope, collective, dtype, op, root, nbytes,
                     in_place);
}

bool is_kept(double time_s) { return std::isnormal(time_s) && time_s > 0; }

void add_again(HistoryCell& cell, const HistoryCell& again) {
  const double bytes = cell.busbw * cell.median_s;
  cell.epochs_s.insert(cell.epochs_s.end(), again.epochs_s.begin(), again.epochs_s.end());
  cell.median_s = median(cell.epochs_s);
  cell.busbw = bytes / cell.median_s;
  cell.interval_s.reset();  // each knows its own time only
  if (again.wrong) cell.wrong = cell.wrong.value_or(0) + *again.wrong;
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
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
    if (std::any_of(kSettings.begin(), kSettings.end(), starts) &&
        std::none_of(kLaunchers.begin(), kLaunchers.end(), starts)) {
      steady.push_back(std::move(variable));
    }
  }
  std::sort(steady.begin(), steady.end());
  return steady;
}

static constexpr std::string_view kKind = "history-run";

void visit_fields(auto&& visit, HistoryCell& c) {
  visit("stage", c.stage);
  visit("cell", c.cell);
  visit("scope", c.scope);
  visit("collective", c.collective);
  visit("dtype", c.dtype);
  visit("op", c.op);
  visit("root", c.root);
  visit("nbytes", c.nbytes);
  visit("in_place", c.in_place);
  visit("algorithm", c.algorithm);
  visit("median_s", c.median_s);
  visit("interval_s", c.interval_s);
  visit("busbw", c.busbw);
  visit("wrong", c.wrong);
  visit("epochs_s", c.epochs_s);
}

/// All but the id, which the history gives.
void visit_fields(auto&& visit, HistoryRun& r) {
  visit("uuid", r.uuid);
  visit("time", r.time);
  visit("kind", r.kind);
  visit("title", r.title);
  visit("command", r.command);
  visit("version", r.version);
  visit("backend", r.backend);
  visit("library", r.library);
  visit("platform", r.platform);
  visit("estimand", r.estimand);
  visit("hosts", r.hosts);
  visit("nranks", r.nranks);
  visit("environment", r.environment);
  visit("outcome", r.outcome);
  visit("exit_code", r.exit_code);
  visit("cells", r.cells);
  visit("criteria", r.criteria);
}

std::string history_run_json(const HistoryRun& run) {
  Json json;
  json["document"] = kKind;
  json["schema"] = 1;
  json["run"] = fields_json(run);
  return dump_json(json);
}

HistoryRun read_history_run_json(std::string_view text, const std::string& name) {
  try {
    const Json document = parse_json(text, name);
    std::string kind;
    read_field(member(document, "document"), "document", kind);
    if (kind != kKind) fail_reading(fmt::format("'document' is not '{}'", kKind));
    HistoryRun run;
    read_field(member(document, "run"), "run", run);
    return run;
  } catch (const Error& error) {
    fail_reading(fmt::format("{} is not a run for a history: {}", name, error.what()));
  }
}

}  // namespace busbar
