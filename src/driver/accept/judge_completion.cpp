#include "common/backends/backend_traits.h"
#include "common/base/lists.h"
#include "driver/accept/judge_parts.h"
#include "driver/accept/read_accept_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace busbar {
namespace {

CriterionResult completed(Stage stage, std::string cell, std::string scope, Outcome outcome) {
  CriterionResult c;
  c.criterion = Criterion::completed;
  c.stage = stage;
  c.cell = std::move(cell);
  c.scope = std::move(scope);
  c.outcome = outcome;
  return c;
}

void judge_failures(const AcceptResult& result, CriterionResults& criteria) {
  for (const StageFailure& failure : result.failures) {
    CriterionResult c = completed(failure.stage, failure.cell, "all", Outcome::fail);
    c.found =
        failure.exit_code != 0 ? fmt::format("{} (exit code {})", failure.verdict, failure.exit_code) : failure.verdict;
    c.wanted = "the stage ends by itself";
    c.reason = failure.text;
    c.hosts = failure.hosts;
    for (int rank : failure.ranks) {
      const std::string host = host_of(result, rank);
      if (!host.empty() && !contains(c.hosts, host)) c.hosts.push_back(host);
    }
    criteria.push_back(std::move(c));
  }
}

/// Whom a cell should have been measured on.
std::vector<std::string> scopes_of(const AcceptResult& result, Stage stage) {
  if (stage == Stage::whole) return {"all"};
  std::vector<std::string> hosts;
  for (const AcceptResult::Host& host : result.hosts) {
    if (!contains(result.excluded_hosts, host.name)) hosts.push_back(host.name);
  }
  return hosts;
}

std::string why_missing(const AcceptResult& result, Stage stage) {
  for (const StageFailure& failure : result.failures) {
    if (failure.stage == stage) return fmt::format("not measured: the stage ended with {}", failure.verdict);
  }
  return result.end_time.empty() ? "not measured: the run has not ended"
                                 : "not measured: no time was left, or the run was cut off";
}

/// What was skipped and why; a reason once, however many hosts gave it.
void judge_skipped(const AcceptResult& result, const PlanCell& cell, Stage stage, CriterionResults& criteria) {
  std::vector<std::string> reasons;
  for (const SkippedCell& s : result.skipped) {
    if (s.cell != cell.name || s.stage != stage || contains(reasons, s.reason)) continue;
    reasons.push_back(s.reason);
    criteria.push_back(completed(stage, cell.name, s.scope, Outcome::skip));
    criteria.back().reason = s.reason;
  }
}

/// Rows by cell, stage and scope: looked up for each host of thousands.
using Measured = std::map<std::tuple<std::string, Stage, std::string>, std::size_t>;

void judge_planned(const AcceptResult& result, const PlanCell& cell, Stage stage, const Measured& measured,
                   CriterionResults& criteria) {
  const std::string elsewhere = why_not_here(cell, traits_of(result.backend));
  if (!elsewhere.empty()) {
    criteria.push_back(completed(stage, cell.name, "all", Outcome::skip));
    criteria.back().reason = elsewhere;
    return;
  }
  judge_skipped(result, cell, stage, criteria);
  std::vector<std::string> missing;
  std::size_t rows = 0;
  for (const std::string& scope : scopes_of(result, stage)) {
    const auto skipped = [&](const SkippedCell& s) {
      return s.cell == cell.name && s.stage == stage && (s.scope == scope || s.scope.empty() || s.scope == "all");
    };
    const auto found = measured.find({cell.name, stage, scope});
    const std::size_t n = found == measured.end() ? 0 : found->second;
    rows += n;
    if (n == 0 && std::none_of(result.skipped.begin(), result.skipped.end(), skipped)) missing.push_back(scope);
  }
  if (!missing.empty()) {
    criteria.push_back(
        completed(stage, cell.name, missing.size() == 1 ? missing.front() : "all", Outcome::inconclusive));
    criteria.back().reason = why_missing(result, stage);
    if (stage == Stage::per_host) {
      criteria.back().found = fmt::format("{} of {} hosts", missing.size(), scopes_of(result, stage).size());
    }
    return;
  }
  // The sizes after the one under way are missing too, and nobody else would say so.
  const bool unfinished = !result.done.empty() && !contains(result.done, fmt::format("{}/{}", name(stage), cell.name));
  if (rows == 0) return;
  criteria.push_back(completed(stage, cell.name, "all", unfinished ? Outcome::inconclusive : Outcome::pass));
  criteria.back().found = fmt::format("{} rows measured", rows);
  if (unfinished) criteria.back().reason = fmt::format("the cell was not finished; {}", why_missing(result, stage));
}

}  // namespace

void judge_completion(const AcceptResult& result, const std::vector<CellSeries>& all, CriterionResults& criteria) {
  judge_failures(result, criteria);
  Measured measured;
  for (const CellSeries& s : all) ++measured[{s.plan->name, s.first().stage, s.first().scope}];
  for (Stage stage : result.plan.stages) {
    for (const PlanCell& cell : result.plan.cells) {
      if (contains(cell.stages, stage)) judge_planned(result, cell, stage, measured, criteria);
    }
  }
}

}  // namespace busbar
