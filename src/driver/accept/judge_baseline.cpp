#include "driver/accept/judge_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace busbar {
namespace {

auto key_of(const CellSeries& s) {
  const MeasuredCell& m = s.first();
  return std::tuple(m.cell, m.stage, m.scope, m.collective, m.dtype, m.op, m.nbytes, m.in_place);
}

/// What else may have made a difference.
std::vector<std::string> differences(const AcceptResult& now, const AcceptResult& then) {
  std::vector<std::string> list;
  const auto compare = [&](const char* what, const std::string& a, const std::string& b) {
    if (a != b) list.push_back(fmt::format("{} {} then, {} now", what, b.empty() ? "none" : b, a.empty() ? "none" : a));
  };
  const auto devices = [](const AcceptResult& r) { return r.hosts.empty() ? std::string() : r.hosts.front().device; };
  const auto nranks = [](const AcceptResult& r) {
    std::size_t n = 0;
    for (const auto& host : r.hosts) n += host.ranks.size();
    return std::to_string(n);
  };
  compare("busbar", now.version, then.version);
  compare("backend", now.backend, then.backend);
  compare("library", now.library, then.library);
  compare("devices", devices(now), devices(then));
  compare("hosts", std::to_string(now.hosts.size()), std::to_string(then.hosts.size()));
  compare("ranks", nranks(now), nranks(then));
  std::vector<std::string> settings_now = now.environment, settings_then = then.environment;
  std::sort(settings_now.begin(), settings_now.end());
  std::sort(settings_then.begin(), settings_then.end());
  if (settings_now != settings_then) list.push_back("the environment differs");
  return list;
}

/// Its time over the baseline's, less 1. Half widths of logarithms add as those of independent medians do.
Estimate slowdown(const Estimate& now, const Estimate& then) {
  Estimate e{.value = now.value / then.value - 1, .interval = {}, .precise = now.precise && then.precise};
  if (!now.interval || !then.interval) return e;
  const auto half = [](const Estimate& x) {
    return std::max(std::log(x.interval->high / x.value), std::log(x.value / x.interval->low));
  };
  const double width = std::hypot(half(now), half(then));
  if (!std::isfinite(width)) return e;
  e.interval = Interval{(1 + e.value) * std::exp(-width) - 1, (1 + e.value) * std::exp(width) - 1};
  return e;
}

CriterionResult compare_series(const CellSeries& now, const CellSeries* then, const Bound& margin,
                               const std::string& source) {
  CriterionResult c = criterion_for(now, Criterion::baseline);
  c.source = source;
  const auto skip = [&](std::string reason) {
    c.outcome = Outcome::skip;
    c.reason = std::move(reason);
    return c;
  };
  if (then == nullptr) return skip("not in the baseline");
  if (then->first().nranks != now.first().nranks) {
    return skip(fmt::format("the baseline has {} ranks, not {}", then->first().nranks, now.first().nranks));
  }
  const Estimate a = time_of(*then);
  const Estimate b = time_of(now);
  const Estimate slower = slowdown(b, a);
  const BoundVerdict verdict = judge_bound(slower, margin, false);
  c.outcome = verdict.outcome;
  c.reason = verdict.reason;
  c.found = fmt::format("{:+.1f} %", slower.value * 100);
  if (slower.interval)
    c.found += fmt::format(" [{:+.1f}, {:+.1f}]", slower.interval->low * 100, slower.interval->high * 100);
  c.found += fmt::format(" ({}, then {})", time_text(b.value), time_text(a.value));
  c.wanted = fmt::format("time {}",
                         bound_text(margin, false, [](double share) { return fmt::format("{:+.1f} %", share * 100); }));
  if (c.outcome >= Outcome::warn && now.first().stage == Stage::per_host) c.hosts = {now.first().scope};
  return c;
}

}  // namespace

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
  std::map<decltype(key_of(before.front())), const CellSeries*> known;
  for (const CellSeries& s : before) known.emplace(key_of(s), &s);
  const std::string source = fmt::format("baseline of {}", baseline->start_time);
  std::size_t compared = 0;
  for (const CellSeries& s : all) {
    const auto found = known.find(key_of(s));
    criteria.push_back(
        compare_series(s, found == known.end() ? nullptr : found->second, result.plan.baseline_margin, source));
    compared += criteria.back().outcome == Outcome::skip ? 0 : 1;
  }
  whole.outcome = compared == 0 ? Outcome::inconclusive : Outcome::pass;
  whole.found = fmt::format("{} of {} rows are in the {}", compared, all.size(), source);
  const std::vector<std::string> other = differences(result, *baseline);
  if (!other.empty()) whole.reason = fmt::format("differs from it: {}", fmt::join(other, "; "));
  criteria.push_back(std::move(whole));
}

}  // namespace busbar
