#include "driver/accept/judge_parts.h"

#include "common/base/lists.h"
#include "common/statistics/launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace busbar {
namespace {

bool worse_than(double value, double bound, bool larger_is_better) {
  return larger_is_better ? value < bound : value > bound;
}

BoundVerdict without_interval(const Estimate& e, const Bound& bound, bool larger_is_better) {
  constexpr const char* kWhy = "measured too briefly for an interval";
  if (bound.fail && worse_than(e.value, larger_is_better ? *bound.fail / 2 : *bound.fail * 2, larger_is_better)) {
    return {Outcome::fail, fmt::format("{}, but worse than the bound by more than a factor of two", kWhy)};
  }
  return {Outcome::inconclusive, kWhy};
}

/// Values above 0; a file may hold others.
bool all_finite(std::span<const double> values) {
  return !values.empty() && std::ranges::all_of(values, [](double v) { return std::isfinite(v) && v > 0; });
}

Estimate nothing() { return {.value = std::nan(""), .interval = {}, .of_few = true}; }

}  // namespace

BoundVerdict judge_bound(const Estimate& e, const Bound& bound, bool larger_is_better) {
  // A comparison with NaN is false, and would pass.
  if (!std::isfinite(e.value)) return {Outcome::inconclusive, "no number was measured"};
  if (!e.interval || !std::isfinite(e.interval->low) || !std::isfinite(e.interval->high)) {
    return without_interval(e, bound, larger_is_better);
  }
  const double best = larger_is_better ? e.interval->high : e.interval->low;
  const double worst = larger_is_better ? e.interval->low : e.interval->high;
  if (bound.fail && worse_than(worst, *bound.fail, larger_is_better)) {
    if (worse_than(best, *bound.fail, larger_is_better)) return {Outcome::fail, {}};
    const bool value_worse = worse_than(e.value, *bound.fail, larger_is_better);
    if (!e.precise && (value_worse || !e.of_few)) {
      return {Outcome::inconclusive, "the interval contains the bound: too noisy to tell"};
    }
    if (value_worse) return {Outcome::fail, {}};
  }
  if (bound.warn && worse_than(worst, *bound.warn, larger_is_better)) {
    if (worse_than(best, *bound.warn, larger_is_better)) return {Outcome::warn, {}};
    if (!e.precise && !e.of_few) return {Outcome::warn, "the interval contains the bound"};
    if (worse_than(e.value, *bound.warn, larger_is_better)) return {Outcome::warn, {}};
  }
  return {};
}

Estimate robust_spread(std::span<const double> values) {
  if (!all_finite(values)) return nothing();
  const double middle = median(values);
  std::vector<double> deviations;
  for (double value : values) deviations.push_back(std::abs(value - middle));
  const double spread = 1.4826 * median(deviations) / middle;
  if (values.size() < 8) return {.value = spread, .interval = {}, .of_few = true};
  const double error = 2 * 1.166 / std::sqrt(static_cast<double>(values.size()));
  const Interval interval{spread * std::max(0.0, 1 - error), spread * (1 + error)};
  return {.value = spread, .interval = interval, .of_few = true};
}

Estimate dip_share(std::span<const double> values, double usual) {
  if (!all_finite(values) || !std::isfinite(usual)) return nothing();
  const double limit = 1.5 * usual;
  const auto n = static_cast<double>(values.size());
  const double share = static_cast<double>(std::ranges::count_if(values, [&](double v) { return v > limit; })) / n;
  // Wilson (1927), 95 %.
  const double z2 = 1.96 * 1.96;
  const double middle = (share + z2 / (2 * n)) / (1 + z2 / n);
  const double half = std::sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n);
  const Interval interval{share == 0 ? 0 : std::max(0.0, middle - half), std::min(1.0, middle + half)};
  return {.value = share, .interval = interval, .of_few = true};
}

std::vector<CellSeries> series_of(const AcceptResult& result) {
  std::map<std::string, std::size_t> order;
  for (const PlanCell& cell : result.plan.cells) order.emplace(cell.name, order.size());
  std::vector<CellSeries> series;
  std::map<CellIdentity, std::size_t> at;
  for (const Cell& m : result.cells) {
    const auto planned = order.find(m.cell);
    if (planned == order.end()) continue;
    const auto [found, is_new] = at.try_emplace(identity(m), series.size());
    if (is_new) series.push_back({&result.plan.cells[planned->second], {}});
    series[found->second].repetitions.push_back(&m);
  }
  for (CellSeries& s : series) {
    std::ranges::stable_sort(s.repetitions, [](const auto* a, const auto* b) { return a->repetition < b->repetition; });
  }
  std::ranges::stable_sort(series, [](const auto& a, const auto& b) { return a.plan < b.plan; });
  return series;
}

Estimate time_of(const CellSeries& series) {
  const Cell& m = series.first();
  if (series.repetitions.size() == 1) return {m.median_s, m.interval_s, m.stop == StopReason::ci};
  std::vector<std::vector<double>> epochs;
  for (const Cell* repetition : series.repetitions) {
    const bool good =
        std::ranges::all_of(repetition->epoch_medians_s, [](double t) { return std::isfinite(t) && t > 0; });
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
  const Cell& m = series.first();
  CriterionResult c;
  c.criterion = criterion;
  c.stage = *m.stage;
  c.cell = m.cell;
  c.scope = m.scope;
  c.nbytes = m.nbytes;
  c.in_place = m.in_place;
  return c;
}

CriterionResult skipped_for(const CellSeries& series, Criterion criterion, std::string reason) {
  CriterionResult c = criterion_for(series, criterion);
  c.outcome = Outcome::skip;
  c.reason = std::move(reason);
  return c;
}

BoundVerdict join_repetitions(const std::vector<BoundVerdict>& verdicts) {
  const auto count = [&](Outcome outcome) {
    return std::ranges::count_if(verdicts, [&](const auto& v) { return v.outcome == outcome; });
  };
  const auto joined = [&](Outcome outcome) {
    const auto first = std::ranges::find_if(verdicts, [&](const auto& v) { return v.outcome == outcome; });
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
    if (contains(host.ranks, rank)) return host.name;
  }
  return {};
}

double core_wait_of(const std::vector<const Cell*>& repetitions) {
  std::vector<double> waits;
  for (const Cell* m : repetitions) waits.push_back(m->core_wait.value_or(0));
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
