#include "driver/accept/judge_parts.h"

#include "common/statistics/launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace busbar {

std::vector<CellSeries> series_of(const AcceptResult& result) {
  std::map<std::string, std::size_t> order;
  for (const PlanCell& cell : result.plan.cells) order.emplace(cell.name, order.size());
  const auto key = [](const MeasuredCell& m) {
    return std::tie(m.cell, m.stage, m.scope, m.collective, m.dtype, m.op, m.nbytes, m.in_place);
  };
  std::vector<CellSeries> series;
  std::map<decltype(key(std::declval<MeasuredCell>())), std::size_t> at;
  for (const MeasuredCell& m : result.cells) {
    const auto planned = order.find(m.cell);
    if (planned == order.end()) continue;
    const auto [found, is_new] = at.try_emplace(key(m), series.size());
    if (is_new) series.push_back({&result.plan.cells[planned->second], {}});
    series[found->second].repetitions.push_back(&m);
  }
  for (CellSeries& s : series) {
    std::stable_sort(s.repetitions.begin(), s.repetitions.end(),
                     [](const auto* a, const auto* b) { return a->repetition < b->repetition; });
  }
  std::stable_sort(series.begin(), series.end(), [](const auto& a, const auto& b) { return a.plan < b.plan; });
  return series;
}

Estimate time_of(const CellSeries& series) {
  const MeasuredCell& m = series.first();
  if (series.repetitions.size() == 1) return {m.median_s, m.interval_s, m.stop == StopReason::ci};
  std::vector<std::vector<double>> epochs;
  for (const MeasuredCell* repetition : series.repetitions) {
    const bool good = std::all_of(repetition->epoch_medians_s.begin(), repetition->epoch_medians_s.end(),
                                  [](double t) { return std::isfinite(t) && t > 0; });
    if (good && !repetition->epoch_medians_s.empty()) epochs.push_back(repetition->epoch_medians_s);
  }
  if (epochs.empty()) return {std::nan(""), std::nullopt, false};
  const LaunchesEstimate merged = merge_launches(epochs, 1);
  return {merged.median, merged.interval, false};
}

std::string busbw_text(double busbw) { return fmt::format("{:.4g} GB/s", busbw); }

std::string time_text(double time_s) {
  if (time_s < 1e-3) return fmt::format("{:.4g} us", time_s * 1e6);
  if (time_s < 1) return fmt::format("{:.4g} ms", time_s * 1e3);
  return fmt::format("{:.4g} s", time_s);
}

std::string share_text(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string bound_text(const Bound& bound, bool larger_is_better, std::string (*text)(double)) {
  const char* sign = larger_is_better ? ">=" : "<=";
  if (!bound.fail) return fmt::format("{} {} (else warn)", sign, text(*bound.warn));
  if (!bound.warn || *bound.warn == *bound.fail) return fmt::format("{} {}", sign, text(*bound.fail));
  return fmt::format("{} {} (warn {})", sign, text(*bound.fail), text(*bound.warn));
}

CriterionResult criterion_for(const CellSeries& series, Criterion criterion) {
  const MeasuredCell& m = series.first();
  CriterionResult c;
  c.criterion = criterion;
  c.stage = m.stage;
  c.cell = m.cell;
  c.scope = m.scope;
  c.nbytes = m.nbytes;
  c.in_place = m.in_place;
  return c;
}

BoundVerdict join_repetitions(const std::vector<BoundVerdict>& verdicts) {
  const auto count = [&](Outcome outcome) {
    return std::count_if(verdicts.begin(), verdicts.end(), [&](const auto& v) { return v.outcome == outcome; });
  };
  const auto joined = [&](Outcome outcome) {
    const auto first =
        std::find_if(verdicts.begin(), verdicts.end(), [&](const auto& v) { return v.outcome == outcome; });
    BoundVerdict result = *first;
    if (verdicts.size() > 1 && outcome != Outcome::pass) {
      result.reason = fmt::format("{} of {} repetitions, the first is number {}{}{}", count(outcome), verdicts.size(),
                                  first - verdicts.begin() + 1, result.reason.empty() ? "" : ": ", result.reason);
    }
    return result;
  };
  if (count(Outcome::fail) > 0) return joined(Outcome::fail);
  if (2 * count(Outcome::inconclusive) >= static_cast<std::ptrdiff_t>(verdicts.size())) {
    return joined(Outcome::inconclusive);
  }
  if (count(Outcome::warn) > 0) return joined(Outcome::warn);
  return joined(count(Outcome::pass) > 0 ? Outcome::pass : verdicts.front().outcome);
}

std::string host_of(const AcceptResult& result, int rank) {
  for (const AcceptResult::Host& host : result.hosts) {
    if (std::find(host.ranks.begin(), host.ranks.end(), rank) != host.ranks.end()) return host.name;
  }
  return {};
}

double core_wait_of(const std::vector<const MeasuredCell*>& repetitions) {
  std::vector<double> waits;
  for (const MeasuredCell* m : repetitions) waits.push_back(m->core_wait.value_or(0));
  return waits.empty() ? 0 : median(waits);
}

bool takes_turns(double core_wait) {
  // As in locate's look at ranks (slow_ranks.h): beyond a sixth the scheduler is seen more than what is measured.
  constexpr double kTurns = 1.0 / 6;
  return core_wait > kTurns;
}

std::string core_wait_text(double core_wait) {
  return fmt::format("ranks waited for a core {:.0f} % of the time: other work has them, or other ranks",
                     core_wait * 100);
}

BoundVerdict doubt_turns(BoundVerdict verdict, double core_wait) {
  if (verdict.outcome < Outcome::warn || !takes_turns(core_wait)) return verdict;
  verdict.outcome = std::min(verdict.outcome, Outcome::inconclusive);
  verdict.reason += (verdict.reason.empty() ? "" : "; ") + core_wait_text(core_wait);
  return verdict;
}

}  // namespace busbar
