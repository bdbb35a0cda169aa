#include "driver/accept/judge_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace busbar {
namespace {

/// What is asked of the measured values of one criterion.
struct Asked {
  Criterion criterion;
  Bound bound;
  bool larger_is_better;
  std::string (*text)(double);
  std::function<Estimate(const Cell&)> estimate;
  bool of_likes = false;  ///< compared with other moments of the same: who takes turns on cores has none to blame
};

void set_found(CriterionResult& c, const Estimate& e, std::string (*text)(double)) {
  c.found = e.interval ? fmt::format("{} [{}, {}]", text(e.value), text(e.interval->low), text(e.interval->high))
                       : text(e.value);
}

/// The repetition that is told: the worst one.
Estimate worst_of(const std::vector<Estimate>& estimates, bool larger_is_better) {
  return *std::ranges::min_element(estimates, [&](const Estimate& a, const Estimate& b) {
    return larger_is_better ? a.value < b.value : a.value > b.value;
  });
}

CriterionResult judge(const CellSeries& series, const Asked& asked) {
  CriterionResult c = criterion_for(series, asked.criterion);
  std::vector<Estimate> estimates;
  std::vector<BoundVerdict> verdicts;
  for (const Cell* m : series.repetitions) {
    estimates.push_back(asked.estimate(*m));
    verdicts.push_back(judge_bound(estimates.back(), asked.bound, asked.larger_is_better));
    if (m->stop == StopReason::time && verdicts.back().outcome == Outcome::inconclusive) {
      verdicts.back().reason += "; its time was over before it was precise, raise cell-time or max-time";
    }
    if (asked.of_likes) verdicts.back() = doubt_turns(std::move(verdicts.back()), m->core_wait.value_or(0));
  }
  const BoundVerdict joined = join_repetitions(verdicts);
  c.outcome = joined.outcome;
  c.reason = joined.reason;
  c.wanted = bound_text(asked.bound, asked.larger_is_better, asked.text);
  set_found(c, worst_of(estimates, asked.larger_is_better), asked.text);
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

/// What others measured: 0.90 of it warns and 0.80 of it fails (acceptance.md 3.4); a vendor's threshold is one.
Bound bound_of(const Expectation& expectation) {
  if (expectation.kind == FigureKind::threshold) return {std::nullopt, expectation.busbw};
  return {0.9 * expectation.busbw, 0.8 * expectation.busbw};
}

/// The algorithm that ran may reach all that it can while another would reach far more: NVLS that is switched off.
void warn_of_better(CriterionResult& c, const Expected& expected, const Cell& m, bool forced) {
  if (!expected.better || forced || m.busbw >= 0.9 * expected.better->busbw) return;
  c.outcome = worse(c.outcome, Outcome::warn);
  c.reason = fmt::format("{}{}ran {}, and {} reaches {} here ({})", c.reason, c.reason.empty() ? "" : "; ", m.algorithm,
                         expected.better_algorithm, busbw_text(expected.better->busbw), expected.better->source);
}

CriterionResult judge_expected(const AcceptResult& result, const PlatformView& view, const CellSeries& series) {
  const Cell& m = series.first();
  if (m.nranks < 2) return skipped_for(series, Criterion::busbw, kOneRank);
  if (view.platform == nullptr) return skipped_for(series, Criterion::busbw, view.reason);
  const Expected expected = expected_busbw(*view.platform, result.network, m);
  if (!expected.expectation) return skipped_for(series, Criterion::busbw, expected.reason);
  const Expectation& e = *expected.expectation;
  CriterionResult c =
      judge_busbw(series, bound_of(e), fmt::format("{} {}, {}", name(e.kind), busbw_text(e.busbw), e.source));
  const auto& settings = series.plan->environment;
  const bool forced = std::ranges::any_of(settings, [](const auto& s) { return s.first == "NCCL_ALGO"; });
  warn_of_better(c, expected, m, forced);
  return c;
}

CriterionResult judge_ceiling(const AcceptResult& result, const PlatformView& view, const CellSeries& series) {
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

/// The median epoch of the median repetition: a repetition that is slow as a whole is one of dips, and its own median
/// would hide that.
double usual_time(const CellSeries& series) {
  std::vector<double> medians;
  for (const Cell* m : series.repetitions) {
    const bool good = std::ranges::all_of(m->epoch_medians_s, [](double t) { return std::isfinite(t) && t > 0; });
    if (good && !m->epoch_medians_s.empty()) medians.push_back(median(m->epoch_medians_s));
  }
  return medians.empty() ? std::nan("") : median(medians);
}

CriterionResult judge_spread(const CellSeries& series, Criterion criterion, const Bound& bound,
                             const std::function<Estimate(std::span<const double>)>& estimate) {
  constexpr std::size_t kFewest = 8;
  const auto too_few = [](const Cell* m) { return m->epoch_medians_s.size() < kFewest; };
  // Of many repetitions the one with few epochs may be the one that something held up.
  if (std::ranges::all_of(series.repetitions, too_few)) {
    return skipped_for(series, criterion,
                       fmt::format("fewer than {} epochs tell no spread: raise cell-time and max-time", kFewest));
  }
  const auto of = [&](const Cell& m) { return estimate(m.epoch_medians_s); };
  return judge(series, {criterion, bound, false, share_text, of, true});
}

}  // namespace

void judge_cell(const AcceptResult& result, const PlatformView& view, const CellSeries& series,
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
  if (asked.time_spread) {
    criteria.push_back(judge_spread(series, Criterion::time_spread, *asked.time_spread, robust_spread));
  }
  if (asked.dips) {
    const double usual = usual_time(series);
    criteria.push_back(judge_spread(series, Criterion::dips, *asked.dips,
                                    [&](std::span<const double> epochs) { return dip_share(epochs, usual); }));
  }
}

}  // namespace busbar
