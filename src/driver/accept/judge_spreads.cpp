#include "common/base/lists.h"
#include "common/record/history_run.h"
#include "common/statistics/distributions.h"
#include "common/statistics/interval.h"
#include "common/statistics/trend.h"
#include "driver/accept/judge_acceptance.h"
#include "driver/history/history_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace busbar {

namespace {

/// What the plan bounds as a share, of which more is worse.
CriterionResult bounded_share(const CellSeries& series, Criterion criterion, const Bound& bound) {
  CriterionResult c = criterion_for(series, criterion);
  c.wanted = bound_text(bound, false, share_text);
  c.source = kFromPlan;
  return c;
}

struct HostTime {
  std::string host;
  Estimate time;
  double core_wait = 0;
};

/// Of two, nobody knows which one is normal: the lesser value shows what is possible.
double ordinary(const std::vector<double>& values) {
  return values.size() == 2 ? std::min(values[0], values[1]) : median(values);
}

/// How far the bandwidth is below the ordinary one.
Estimate shortfall(const Estimate& time, double ordinary_s) {
  const auto share = [&](double t) { return 1 - ordinary_s / t; };
  Estimate e{.value = share(time.value), .interval = {}, .precise = time.precise};
  if (time.interval) e.interval = Interval{share(time.interval->low), share(time.interval->high)};
  return e;
}

/// How much hosts differ although none is bad: standard deviation of the logarithms of their times, by the MAD (3.2 of
/// acceptance.md). Few hosts say little about it: of three, two that happen to agree would make the third one sick, and
/// two that happen not to would hide it. So below eight, the usual spread of healthy rows counts as four hosts more.
double usual_spread(const std::vector<HostTime>& hosts, double ordinary_s) {
  constexpr double kHealthy = 0.03;
  constexpr double kAsHosts = 4;
  constexpr std::size_t kFew = 8;
  const double spread =
      1.4826 * median(mapped(hosts, [&](const HostTime& h) { return std::abs(std::log(h.time.value / ordinary_s)); }));
  if (hosts.size() < 3 || hosts.size() >= kFew) return spread;
  const double degrees = static_cast<double>(hosts.size()) - 2;
  return std::sqrt((kAsHosts * kHealthy * kHealthy + degrees * spread * spread) / (kAsHosts + degrees));
}

/// How much slower than the ordinary one, in logarithms, a host must be to be an outlier: as many robust deviations as
/// one of so many healthy hosts exceeds in at most 1 of 200 cells. The slowest of many is far from the middle without
/// being sick.
double outlier_at(const std::vector<HostTime>& hosts, double spread) {
  const auto n = static_cast<double>(hosts.size());
  return n < 3 ? 0 : std::max(3.0, normal_quantile(1 - 0.005 / n)) * spread;
}

/// The shortfall from which a host that is known as well as the median host gets a FAIL.
double fails_from(const std::vector<HostTime>& hosts, double fail, double spread) {
  const double low = median(mapped(hosts, [](const HostTime& h) {  // end of the interval, of the value
    return h.time.precise ? 1 : h.time.interval ? h.time.interval->low / h.time.value : 0.5;
  }));
  return std::max(1 - (1 - fail) * low, 1 - std::exp(-outlier_at(hosts, spread)));
}

/// The worst verdict, and the hosts that got it.
struct Blamed {
  BoundVerdict verdict;
  std::vector<HostTime> hosts;
};

/// Compares with bounds and with what is usual: a host that is slow among hosts that all differ as much is no outlier.
Blamed worst_of(const std::vector<HostTime>& hosts, const Bound& bound, double ordinary_s, double spread) {
  Blamed worst;
  for (const HostTime& h : hosts) {
    BoundVerdict verdict = judge_bound(shortfall(h.time, ordinary_s), bound, false);
    const bool usual =
        verdict.outcome == Outcome::fail && std::log(h.time.value / ordinary_s) < outlier_at(hosts, spread);
    if (usual) {
      verdict = {Outcome::inconclusive,
                 fmt::format("the slowest of {} hosts may differ as much: their robust spread is {}", hosts.size(),
                             share_text(spread))};
    }
    if (verdict.outcome < worst.verdict.outcome || verdict.outcome == Outcome::pass) continue;
    if (verdict.outcome > worst.verdict.outcome) worst = {std::move(verdict), {}};
    if (!usual) worst.hosts.push_back(h);
  }
  return worst;
}

CriterionResult judge_group(const CellSeries& like, std::vector<HostTime> hosts) {
  const Bound& bound = *like.plan->criteria.host_spread;
  CriterionResult c = bounded_share(like, Criterion::host_spread, bound);
  c.scope = "all";
  std::erase_if(hosts, [](const HostTime& h) { return !(std::isfinite(h.time.value) && h.time.value > 0); });
  if (hosts.size() < 2) return skipped(std::move(c), "there is only one host, and none to compare it with");
  const double ordinary_s = ordinary(mapped(hosts, [](const HostTime& h) { return h.time.value; }));
  std::ranges::sort(hosts, [](const auto& a, const auto& b) { return a.time.value > b.time.value; });
  c.found = fmt::format("slowest: {} {} below {} {} hosts ({}, usual {})", hosts.front().host,
                        share_text(shortfall(hosts.front().time, ordinary_s).value),
                        hosts.size() == 2 ? "the faster of" : "the median of", hosts.size(),
                        time_text(hosts.front().time.value), time_text(ordinary_s));
  // If only one host's ranks wait for cores, other work on it makes it slow.
  const double wait = ordinary(mapped(hosts, &HostTime::core_wait));
  const double spread = usual_spread(hosts, ordinary_s);
  if (bound.fail && !takes_turns(wait)) {
    c.found += fmt::format("; a FAIL is possible from {} on", share_text(fails_from(hosts, *bound.fail, spread)));
  }
  Blamed worst = worst_of(hosts, bound, ordinary_s, spread);
  const BoundVerdict verdict = doubt_turns(std::move(worst.verdict), wait);
  // If hosts take turns on cores, the scheduler chooses their speeds: no more than a warning, except for a host that is
  // beyond a factor of two or has no interval.
  const Estimate slowest = shortfall(hosts.front().time, ordinary_s);
  const bool by_chance = takes_turns(wait) && slowest.interval && slowest.value < 0.5;
  c.outcome = by_chance ? std::min(verdict.outcome, Outcome::warn) : verdict.outcome;
  c.reason = verdict.reason;
  if (!takes_turns(wait)) {
    for (const HostTime& h : worst.hosts) c.hosts.push_back(h.host);
  }
  const auto add_reason = [&](const std::string& text) { c.reason += (c.reason.empty() ? "" : "; ") + text; };
  if (hosts.size() == 2 && !c.hosts.empty()) add_reason("of two hosts the slower one; too few to know what is usual");
  if (c.hosts.size() == 1 && takes_turns(worst.hosts.front().core_wait)) {
    add_reason(fmt::format("there {}", core_wait_text(worst.hosts.front().core_wait)));
  }
  return c;
}

/// What a row took in each launch. Repetitions of one job are one launch: they saw one placement of its processes.
struct LaunchTimes {
  std::vector<double> logs;  ///< of a time [s], per launch
  double own = 0;            ///< variance of one of them by its own interval
};

LaunchTimes launch_times(const CellSeries& series, bool launched) {
  std::map<int, std::vector<double>> of_launch;
  for (const Cell* m : series.repetitions) {
    if (std::isfinite(m->median_s) && m->median_s > 0) of_launch[launched ? m->repetition : 0].push_back(m->median_s);
  }
  LaunchTimes times;
  for (const auto& [number, medians] : of_launch) times.logs.push_back(std::log(median(medians)));
  const Cell& first = series.first();
  const double half = first.interval_s ? std::log(first.interval_s->high / first.interval_s->low) / 2 : 0;
  times.own = std::isfinite(half) ? half * half / (1.96 * 1.96) : 0;
  return times;
}

/// A row's time over the baseline's, less 1.
struct Slowdown {
  Estimate estimate;
  double now_s = 0;   ///< geometric mean over the launches
  double then_s = 0;  ///< as now_s
  double error = 0;   ///< of the logarithm
  double level = 0;   ///< of Student's t at either end
  int degrees = 0;    ///< of freedom of that
  bool known = true;  ///< the launches show how much they differ; else kAssumed
};

/// How much launches are assumed to differ if there are too few to tell: more than on most machines.
constexpr double kAssumed = 0.10;

/// From the launches alone: the interval inside one says nothing about the next.
Slowdown slowdown(const LaunchTimes& now, const LaunchTimes& then) {
  constexpr std::size_t kLeastLaunches = 5;  // of both: three degrees of freedom
  constexpr int kMany = 1000;
  Slowdown s;
  s.estimate.value = std::nan("");
  if (now.logs.empty() || then.logs.empty()) return s;
  const auto n = static_cast<double>(now.logs.size());
  const auto m = static_cast<double>(then.logs.size());
  s.known = now.logs.size() + then.logs.size() >= kLeastLaunches;
  s.degrees = s.known ? static_cast<int>(now.logs.size() + then.logs.size()) - 2 : kMany;
  const Moments of_now = moments(now.logs), of_then = moments(then.logs);
  const double squares = (n - 1) * of_now.variance + (m - 1) * of_then.variance;
  const double variance = s.known ? squares / s.degrees : kAssumed * kAssumed + std::max(now.own, then.own);
  s.error = std::sqrt(variance * (1 / n + 1 / m));
  // Student's t at either end of the interval: of ten rows whose launches differ alike, 1 % of healthy clusters FAIL at
  // most, with one launch now and any number then; 2.5 % at either end made up to 1.7 %. Several on both sides are so
  // near their means that 3 % make 0.3 % at most.
  s.level = std::min(n, m) >= 4 ? 0.97 : s.degrees < 6 ? 0.99 : 0.98;
  s.now_s = std::exp(of_now.mean);
  s.then_s = std::exp(of_then.mean);
  const double by = of_now.mean - of_then.mean;
  const double half = student_t_quantile(s.level, s.degrees) * s.error;
  s.estimate.value = std::exp(by) - 1;
  s.estimate.interval = Interval{std::exp(by - half) - 1, std::exp(by + half) - 1};
  return s;
}

/// "with 8 + 1 launches (then + now) a slowdown of 35 % or more can be detected": one that is found in 95 of 100 runs.
std::string power_text(const Slowdown& s, const LaunchTimes& now, const LaunchTimes& then, double fail) {
  const double t = student_t_quantile(s.level, s.degrees) + student_t_quantile(0.95, s.degrees);
  const double least = (1 + fail) * std::exp(t * s.error) - 1;
  const std::string assumed =
      s.known ? "" : fmt::format(", too few to show how much they differ (five do; {:g} % assumed),", 100 * kAssumed);
  return fmt::format("with {} + {} launches (then + now){} a slowdown of {:.0f} % or more can be detected",
                     then.logs.size(), now.logs.size(), assumed, 100 * least);
}

CriterionResult compare_series(const CellSeries& now, bool launched, const CellSeries* then, bool then_launched,
                               const Bound& margin, const std::string& source) {
  CriterionResult c = criterion_for(now, Criterion::baseline);
  c.source = source;
  if (then == nullptr) return skipped(std::move(c), "not in the baseline");
  if (then->first().nranks != now.first().nranks) {
    return skipped(std::move(c),
                   fmt::format("the baseline has {} ranks, not {}", then->first().nranks, now.first().nranks));
  }
  const LaunchTimes before = launch_times(*then, then_launched);
  const LaunchTimes after = launch_times(now, launched);
  const Slowdown found = slowdown(after, before);
  const Estimate& slower = found.estimate;
  const BoundVerdict verdict = judge_bound(slower, margin, false);
  c.outcome = verdict.outcome;
  c.reason = verdict.reason;
  if (c.outcome == Outcome::inconclusive && slower.interval)
    c.reason = power_text(found, after, before, margin.fail.value_or(0));
  if (std::isfinite(slower.value)) {
    c.found = fmt::format("{:+.1f} %", slower.value * 100);
    if (slower.interval)
      c.found += fmt::format(" [{:+.1f}, {:+.1f}]", slower.interval->low * 100, slower.interval->high * 100);
    c.found += fmt::format(" ({}, then {})", time_text(found.now_s), time_text(found.then_s));
  }
  c.wanted = fmt::format("time {}",
                         bound_text(margin, false, [](double share) { return fmt::format("{:+.1f} %", share * 100); }));
  if (c.outcome >= Outcome::warn && now.first().stage == Stage::per_host) c.hosts = {now.first().scope};
  return c;
}

}  // namespace

CriterionResult judge_drift(const CellSeries& series) {
  const Bound& bound = *series.plan->criteria.drift;
  CriterionResult c = bounded_share(series, Criterion::drift, bound);
  std::vector<double> times;
  for (const Cell* m : series.repetitions) {
    if (std::isfinite(m->median_s) && m->median_s > 0) times.push_back(m->median_s);
  }
  constexpr std::size_t kFewest = 9;
  if (times.size() < kFewest) {
    return skipped(std::move(c),
                   fmt::format("{} repetitions are too few to show a drift, {} needed", times.size(), kFewest));
  }
  const std::span<const double> all(times);
  const std::size_t third = times.size() / 3;
  const double drift = median(all.last(third)) / median(all.first(third)) - 1;
  const double p = trend_p(mapped(times, [](double time_s) { return std::log(time_s); }));
  c.found = fmt::format("{:+.1f} % over {} repetitions (trend p = {:.2g})", drift * 100, times.size(), p);
  // Without a trend the thirds differ by noise.
  if (p < 0.01) {
    const Estimate estimate{.value = drift, .interval = Interval{drift, drift}, .precise = true};
    const std::vector<const Cell*> last(series.repetitions.end() - static_cast<std::ptrdiff_t>(third),
                                        series.repetitions.end());
    const BoundVerdict verdict = doubt_turns(judge_bound(estimate, bound, false), core_wait_of(last));
    c.outcome = verdict.outcome;
    c.reason = verdict.reason;
  }
  return c;
}

void judge_hosts(const std::vector<CellSeries>& all, CriterionResults& criteria) {
  const auto without_host = [](const CellSeries& s) {
    const Cell& m = s.first();
    return std::tie(m.stage, m.cell, m.dtype, m.op, m.nbytes, m.in_place);
  };
  for (const auto& [like, group] : grouped(all, without_host)) {
    const CellSeries& first = *group.front();
    if (!first.plan->criteria.host_spread || first.first().stage != Stage::per_host) continue;
    criteria.push_back(judge_group(first, mapped(group, [](const CellSeries* s) {
                                     return HostTime{s->first().scope, time_of(*s), core_wait_of(s->repetitions)};
                                   })));
  }
}

CriterionResult judge_ranks(const CellSeries& series) {
  const Cell& m = *series.repetitions.back();
  const Bound& bound = *series.plan->criteria.rank_spread;
  CriterionResult c = bounded_share(series, Criterion::rank_spread, bound);
  const auto skip = [&](const char* why) { return skipped(std::move(c), why); };
  constexpr std::uint64_t kFewestSamples = 20;
  if (m.ranks.size() < 3) return skip("fewer than three ranks whose arrivals are known");
  if (m.shared_cores) return skip("ranks share cores: the scheduler decides which one is late");
  if (m.samples < kFewestSamples) return skip("too few samples to tell who is late");
  if (!(m.median_s > 0)) return skip("no time was measured");
  std::vector<double> late;
  for (const RankTime& rank : m.ranks) {
    if (!rank.late_median_s || !rank.last_share) return skip("fewer than three ranks whose arrivals are known");
    late.push_back(*rank.late_median_s);
  }
  const double usual_s = median(late);
  // The late rank is the one to blame; its own time is the shortest, because the others wait for it.
  const auto& last = *std::ranges::max_element(
      m.ranks, [](const auto& a, const auto& b) { return a.late_median_s < b.late_median_s; });
  const double share = (*last.late_median_s - usual_s) / m.median_s;
  c.found = fmt::format("rank {} on {} is {} later than the median rank ({}), last in {:.0f} % of samples", last.rank,
                        last.host, time_text(*last.late_median_s - usual_s), share_text(share), *last.last_share * 100);
  const double chance = 1 / static_cast<double>(m.ranks.size());
  const bool often = *last.last_share > chance + (1 - chance) / 2;
  // Lateness is a median of many samples on one clock: it needs no interval, but a rank to blame.
  const BoundVerdict verdict =
      judge_bound({.value = share, .interval = Interval{share, share}, .precise = true}, bound, false);
  c.outcome = verdict.outcome;
  if (c.outcome == Outcome::fail && !often) {
    c.outcome = Outcome::inconclusive;
    c.reason = "no rank is last often enough to be blamed";
  } else if (c.outcome != Outcome::pass) {
    c.hosts = {last.host};
  }
  return c;
}

void judge_baseline(const AcceptResult& result, const std::vector<CellSeries>& all, const AcceptResult* baseline,
                    CriterionResults& criteria) {
  if (baseline == nullptr && result.plan.baseline.empty()) return;
  CriterionResult whole;
  whole.criterion = Criterion::baseline;
  whole.scope = "all";
  if (baseline == nullptr) {
    whole.outcome = Outcome::inconclusive;
    whole.reason = fmt::format("{} was not read", result.plan.baseline);
    criteria.push_back(std::move(whole));
    return;
  }
  const std::vector<CellSeries> before = series_of(*baseline);
  std::map<CellIdentity, const CellSeries*> known;
  for (const CellSeries& s : before) known.emplace(identity(s.first()), &s);
  const std::string source = fmt::format("baseline of {}", baseline->start_time);
  std::size_t compared = 0;
  for (const CellSeries& s : all) {
    const auto found = known.find(identity(s.first()));
    criteria.push_back(compare_series(s, !result.launch.empty(), found == known.end() ? nullptr : found->second,
                                      !baseline->launch.empty(), result.plan.baseline_margin, source));
    compared += criteria.back().outcome == Outcome::skip ? 0 : 1;
  }
  whole.outcome = compared == 0 ? Outcome::inconclusive : Outcome::pass;
  whole.found = fmt::format("{} of {} rows are in the {}", compared, all.size(), source);
  const std::vector<std::string> other =
      differences(history_of_accept(*baseline, "accept"), history_of_accept(result, "accept"));
  if (!other.empty()) whole.reason = fmt::format("differs from it: {}", fmt::join(other, "; "));
  criteria.push_back(std::move(whole));
}

}  // namespace busbar
