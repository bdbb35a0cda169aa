#include "driver/accept/judge_acceptance.h"

#include "driver/accept/judge_parts.h"

#include <algorithm>

namespace busbar {
namespace {

/// That something ran, and on what, is not a judgement of it.
bool is_judgement(const CriterionResult& c) {
  return c.outcome != Outcome::skip &&
         (c.outcome != Outcome::pass || (c.criterion != Criterion::completed && c.criterion != Criterion::platform));
}

Outcome outcome_of(const CriterionResults& criteria) {
  if (std::none_of(criteria.begin(), criteria.end(), is_judgement)) return Outcome::inconclusive;
  Outcome outcome = Outcome::pass;
  for (const CriterionResult& c : criteria) outcome = worse(outcome, c.outcome);
  return outcome;
}

PlatformView view_of(const AcceptResult& result, const std::vector<Platform>& platforms) {
  if (result.plan.platform.empty()) return {nullptr, "the plan expects no platform"};
  const RecognisedPlatform found = recognise_platform(platforms, result.hosts);
  return {found.platform, found.reason};
}

}  // namespace

void judge_acceptance(AcceptResult& result, const std::vector<Platform>& platforms, const AcceptResult* baseline) {
  const PlatformView view = view_of(result, platforms);
  result.platform = view.platform != nullptr ? view.platform->name : "";
  const std::vector<CellSeries> all = series_of(result);
  CriterionResults criteria;
  judge_completion(result, all, criteria);
  judge_platform(result, view, criteria);
  judge_nodes(result, criteria);
  for (const CellSeries& series : all) {
    judge_cell(result, view, series, criteria);
    judge_over_time(series, criteria);
    judge_ranks(series, criteria);
  }
  judge_hosts(all, criteria);
  judge_baseline(result, all, baseline, criteria);
  result.criteria = std::move(criteria);
  result.outcome = outcome_of(result.criteria);
}

}  // namespace busbar
