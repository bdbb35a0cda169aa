#include "common/base/lists.h"
#include "common/statistics/interval.h"
#include "driver/accept/judge_acceptance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace busbar {
namespace {

bool worse_than(double value, double bound, bool larger_is_better) {
  return larger_is_better ? value < bound : value > bound;
}

/// Values above 0; a file may hold others.
bool all_finite(std::span<const double> values) {
  return !values.empty() && std::ranges::all_of(values, [](double v) { return std::isfinite(v) && v > 0; });
}

Estimate nothing() { return {.value = std::nan(""), .interval = {}, .of_few = true}; }

/// What one criterion requires of the measured values.
struct Asked {
  Criterion criterion;
  Bound bound;
  bool larger_is_better;
  std::string (*text)(double);
  std::function<Estimate(const Cell&)> estimate;
  bool of_likes = false;  ///< compared with its likes: if they take turns on cores, none is to blame
};

CriterionResult judge(const CellSeries& series, const Asked& asked) {
  CriterionResult c = criterion_for(series, asked.criterion);
  std::vector<Estimate> estimates;
  std::vector<BoundVerdict> verdicts;
  for (const Cell* m : series.repetitions) {
    estimates.push_back(asked.estimate(*m));
    verdicts.push_back(judge_bound(estimates.back(), asked.bound, asked.larger_is_better));
    if (m->stop == StopReason::time && verdicts.back().outcome == Outcome::inconclusive)
      verdicts.back().reason += "; time ran out before it was precise: raise cell-time or max-time";
    if (asked.of_likes) verdicts.back() = doubt_turns(std::move(verdicts.back()), m->core_wait.value_or(0));
  }
  const BoundVerdict joined = join_repetitions(verdicts);
  c.outcome = joined.outcome;
  c.reason = joined.reason;
  c.wanted = bound_text(asked.bound, asked.larger_is_better, asked.text);
  // The repetition to report: the worst one.
  const Estimate& e = *std::ranges::min_element(estimates, [&](const Estimate& a, const Estimate& b) {
    return worse_than(a.value, b.value, asked.larger_is_better);
  });
  c.found = asked.text(e.value);
  if (e.interval) c.found += fmt::format(" [{}, {}]", asked.text(e.interval->low), asked.text(e.interval->high));
  return c;
}

Estimate busbw_of(const Cell& m) { return {m.busbw, m.busbw_interval, m.stop == StopReason::ci}; }
Estimate latency_of(const Cell& m) { return {m.median_s, m.interval_s, m.stop == StopReason::ci}; }

constexpr const char* kOneRank = "one rank by itself sends nothing over a bus";

CriterionResult judge_busbw(const CellSeries& series, const Bound& bound, std::string source) {
  if (series.first().nranks < 2) return skipped_for(series, Criterion::busbw, kOneRank);
  CriterionResult c = judge(series, {Criterion::busbw, bound, true, busbw_text, busbw_of});
  c.wanted_busbw = bound.fail ? bound.fail : bound.warn;
  c.source = std::move(source);
  return c;
}

CriterionResult judge_expected(const AcceptResult& result, const RecognisedPlatform& view, const CellSeries& series) {
  const Cell& m = series.first();
  if (m.nranks < 2) return skipped_for(series, Criterion::busbw, kOneRank);
  if (view.platform == nullptr) return skipped_for(series, Criterion::busbw, view.reason);
  const Expected expected = expected_busbw(*view.platform, result.network, m);
  if (expected.of_ran == nullptr) return skipped_for(series, Criterion::busbw, expected.reason);
  const PlatformEntry& e = *expected.of_ran;
  // Of what others measured, 0.90 warns and 0.80 fails (acceptance.md 3.4); a vendor's threshold is one itself.
  const Bound bound =
      e.kind == FigureKind::threshold ? Bound{std::nullopt, e.busbw} : Bound{0.9 * e.busbw, 0.8 * e.busbw};
  CriterionResult c = judge_busbw(series, bound, fmt::format("{} {}, {}", name(e.kind), busbw_text(e.busbw), e.source));
  // The algorithm that ran may reach all that it can while another would reach far more: NVLS that is switched off.
  const PlatformEntry* const better = expected.better;
  const auto& settings = series.plan->environment;
  const bool forced = std::ranges::any_of(settings, [](const auto& s) { return s.first == "NCCL_ALGO"; });
  if (better == nullptr || forced || m.busbw >= 0.9 * better->busbw) return c;
  c.outcome = worse(c.outcome, Outcome::warn);
  c.reason = fmt::format("{}{}ran {}, and {} reaches {} here ({})", c.reason, c.reason.empty() ? "" : "; ", m.algorithm,
                         better->algorithm, busbw_text(better->busbw), better->source);
  return c;
}

CriterionResult judge_ceiling(const AcceptResult& result, const RecognisedPlatform& view, const CellSeries& series) {
  const Criteria& asked = series.plan->criteria;
  const Cell& m = series.first();
  if (m.nranks < 2) return skipped_for(series, Criterion::ceiling, kOneRank);
  Ceiling ceiling{asked.ceiling_busbw, std::string(kFromPlan), {}};
  if (ceiling.busbw <= 0) {
    if (view.platform == nullptr) return skipped_for(series, Criterion::ceiling, view.reason);
    ceiling = ceiling_busbw(*view.platform, result.network, m);
    if (ceiling.busbw <= 0) return skipped_for(series, Criterion::ceiling, ceiling.reason);
  }
  const auto share_of = [&](const Cell& measured) {
    Estimate e = busbw_of(measured);
    e.value /= ceiling.busbw;
    if (e.interval) e.interval = Interval{e.interval->low / ceiling.busbw, e.interval->high / ceiling.busbw};
    return e;
  };
  CriterionResult c = judge(series, {Criterion::ceiling, *asked.of_ceiling, true, share_text, share_of});
  c.wanted += fmt::format(" of {}", busbw_text(ceiling.busbw));
  const Bound& bound = *asked.of_ceiling;
  c.wanted_busbw = ceiling.busbw * (bound.fail ? *bound.fail : *bound.warn);
  c.source = ceiling.source;
  return c;
}

CriterionResult judge_wrong(const AcceptResult& result, const CellSeries& series) {
  CriterionResult c = criterion_for(series, Criterion::wrong);
  c.wanted = "0";
  std::int64_t wrong = 0;
  std::size_t unchecked = 0;
  std::vector<std::string> texts;
  std::set<std::string> hosts;
  for (const Cell* m : series.repetitions) {
    if (!m->wrong) ++unchecked;
    wrong += m->wrong.value_or(0);
    for (const std::string& text : m->wrong_texts) {
      if (texts.size() < 3) texts.push_back(text);
    }
    for (int rank : m->wrong_ranks) hosts.insert(host_of(result, rank));
  }
  hosts.erase("");
  if (wrong != 0) {
    c.outcome = Outcome::fail;
    c.found = fmt::format("{} wrong elements", wrong);
    c.reason = fmt::format("{}", fmt::join(texts, "; "));
    c.hosts.assign(hosts.begin(), hosts.end());
    return c;
  }
  if (unchecked > 0) {
    const bool moves_data = series.plan->collective->moves_data;
    const bool undefined = series.first().in_place && series.plan->collective->replaces_input;
    const bool asked = series.plan->config.check > 0;
    c.outcome = asked && moves_data && !undefined ? Outcome::inconclusive : Outcome::skip;
    c.reason = !moves_data ? "there are no data to check"
               : !asked    ? "not checked, as the plan says (check: 0)"
               : undefined ? "the library leaves nothing defined in place"
                           : "the data were not checked";
    return c;
  }
  c.found = "0";
  return c;
}

CriterionResult judge_spread(const CellSeries& series, Criterion criterion, const Bound& bound,
                             const std::function<Estimate(std::span<const double>)>& estimate) {
  const auto too_few = [](const Cell* m) { return std::ssize(m->epoch_medians_s) < kFewestEpochs; };
  // Of many repetitions the one with few epochs may be the one that something delayed.
  if (std::ranges::all_of(series.repetitions, too_few)) {
    return skipped_for(series, criterion,
                       fmt::format("fewer than {} epochs show no spread: raise max-time", kFewestEpochs));
  }
  const auto of = [&](const Cell& m) { return estimate(m.epoch_medians_s); };
  return judge(series, {criterion, bound, false, share_text, of, true});
}

}  // namespace

BoundVerdict judge_bound(const Estimate& e, const Bound& bound, bool larger_is_better) {
  // A comparison with NaN is false, and would pass.
  if (!std::isfinite(e.value)) return {Outcome::inconclusive, "no number was measured"};
  if (!e.interval || !std::isfinite(e.interval->low) || !std::isfinite(e.interval->high)) {
    constexpr const char* kWhy = "measured too briefly for an interval";
    if (bound.fail && worse_than(e.value, larger_is_better ? *bound.fail / 2 : *bound.fail * 2, larger_is_better)) {
      return {Outcome::fail, fmt::format("{}, but worse than the bound by more than a factor of two", kWhy)};
    }
    return {Outcome::inconclusive, kWhy};
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
  const double spread = 1.4826 * median(mapped(values, [&](double v) { return std::abs(v - middle); })) / middle;
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
  std::map<std::string, const PlanCell*> planned;
  for (const PlanCell& cell : result.plan.cells) planned.emplace(cell.name, &cell);
  std::vector<CellSeries> series;
  for (auto& [cell, repetitions] : grouped(result.cells, [](const Cell& m) { return identity(m); })) {
    const auto found = planned.find(cell.cell);
    if (found == planned.end()) continue;
    std::ranges::stable_sort(repetitions, {}, [](const Cell* m) { return m->repetition; });
    series.push_back({found->second, std::move(repetitions)});
  }
  std::ranges::stable_sort(series, [](const auto& a, const auto& b) { return a.plan < b.plan; });
  return series;
}

Estimate time_of(const CellSeries& series) {
  const Cell& m = series.first();
  if (series.repetitions.size() == 1) return {m.median_s, m.interval_s, m.stop == StopReason::ci};
  std::vector<std::vector<double>> epochs;
  for (const Cell* repetition : series.repetitions) {
    if (all_finite(repetition->epoch_medians_s)) epochs.push_back(repetition->epoch_medians_s);
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

CriterionResult skipped(CriterionResult c, std::string reason) {
  c.outcome = Outcome::skip;
  c.reason = std::move(reason);
  return c;
}

CriterionResult skipped_for(const CellSeries& series, Criterion criterion, std::string reason) {
  return skipped(criterion_for(series, criterion), std::move(reason));
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
  if (2 * count(Outcome::inconclusive) >= static_cast<std::ptrdiff_t>(verdicts.size()))
    return joined(Outcome::inconclusive);
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
  const auto waits = mapped(repetitions, [](const Cell* m) { return m->core_wait.value_or(0); });
  return waits.empty() ? 0 : median(waits);
}

bool takes_turns(double core_wait) {
  // As for locate's slow ranks (slow_ranks.h): beyond a sixth the scheduler shows more than what is measured.
  constexpr double kTurns = 1.0 / 6;
  return core_wait > kTurns;
}

std::string core_wait_text(double core_wait) {
  return fmt::format("ranks waited for a core {:.0f} % of the time: other work or other ranks had it", core_wait * 100);
}

BoundVerdict doubt_turns(BoundVerdict verdict, double core_wait) {
  if (verdict.outcome < Outcome::warn || !takes_turns(core_wait)) return verdict;
  verdict.outcome = std::min(verdict.outcome, Outcome::inconclusive);
  verdict.reason += (verdict.reason.empty() ? "" : "; ") + core_wait_text(core_wait);
  return verdict;
}

void judge_cell(const AcceptResult& result, const RecognisedPlatform& view, const CellSeries& series,
                CriterionResults& criteria) {
  const Criteria& asked = series.plan->criteria;
  if (asked.wrong) criteria.push_back(judge_wrong(result, series));
  if (asked.busbw) criteria.push_back(judge_busbw(series, *asked.busbw, std::string(kFromPlan)));
  if (asked.busbw_expected) criteria.push_back(judge_expected(result, view, series));
  if (asked.of_ceiling) criteria.push_back(judge_ceiling(result, view, series));
  if (asked.latency) {
    criteria.push_back(judge(series, {Criterion::latency, *asked.latency, false, time_text, latency_of}));
    criteria.back().source = kFromPlan;
  }
  if (asked.time_spread)
    criteria.push_back(judge_spread(series, Criterion::time_spread, *asked.time_spread, robust_spread));
  if (asked.dips) {
    // The median epoch of the median repetition: a repetition that is slow as a whole is one of dips, and its own
    // median would hide that.
    std::vector<double> medians;
    for (const Cell* m : series.repetitions) {
      if (all_finite(m->epoch_medians_s)) medians.push_back(median(m->epoch_medians_s));
    }
    const double usual = medians.empty() ? std::nan("") : median(medians);
    criteria.push_back(judge_spread(series, Criterion::dips, *asked.dips,
                                    [&](std::span<const double> epochs) { return dip_share(epochs, usual); }));
  }
}

}  // namespace busbar
