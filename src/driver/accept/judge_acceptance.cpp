#include "driver/accept/judge_acceptance.h"

#include "common/backends/backend_traits.h"
#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "driver/accept/read_accept_plan.h"
#include "driver/doctor/join_nodes.h"
#include "driver/formats/result_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace busbar {
namespace {

/// Of the run as a whole.
CriterionResult about(Criterion criterion, Stage stage, Outcome outcome, std::string reason = {}) {
  CriterionResult c;
  c.criterion = criterion;
  c.stage = stage;
  c.scope = "all";
  c.outcome = outcome;
  c.reason = std::move(reason);
  return c;
}

CriterionResult completed(Stage stage, std::string cell, std::string scope, Outcome outcome, std::string reason = {}) {
  CriterionResult c = about(Criterion::completed, stage, outcome, std::move(reason));
  c.cell = std::move(cell);
  c.scope = std::move(scope);
  return c;
}

void judge_failures(const AcceptResult& result, CriterionResults& criteria) {
  for (const StageFailure& failure : result.failures) {
    CriterionResult c = completed(failure.stage, failure.cell, "all", Outcome::fail, failure.text);
    c.found =
        failure.exit_code != 0 ? fmt::format("{} (exit code {})", failure.verdict, failure.exit_code) : failure.verdict;
    c.wanted = "the stage ends by itself";
    c.hosts = failure.hosts;
    for (int rank : failure.ranks) add_once(c.hosts, host_of(result, rank));
    criteria.push_back(std::move(c));
  }
}

/// The scopes on which a cell should have been measured.
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

/// Rows by cell, stage and scope: looked up for each host of thousands.
using Measured = std::map<std::tuple<std::string, Stage, std::string>, std::size_t>;

void judge_planned(const AcceptResult& result, const PlanCell& cell, Stage stage, const Measured& measured,
                   CriterionResults& criteria) {
  const std::string elsewhere = why_not_here(cell, traits_of(result.backend));
  if (!elsewhere.empty()) {
    criteria.push_back(completed(stage, cell.name, "all", Outcome::skip, elsewhere));
    return;
  }
  // What was skipped and why; a reason once, however many hosts gave it.
  std::vector<std::string> reasons, missing;
  std::set<std::string> skipped;
  for (const SkippedCell& s : result.skipped) {
    if (s.cell != cell.name || s.stage != stage) continue;
    skipped.insert(s.scope.empty() ? "all" : s.scope);
    if (contains(reasons, s.reason)) continue;
    reasons.push_back(s.reason);
    criteria.push_back(completed(stage, cell.name, s.scope, Outcome::skip, s.reason));
  }
  std::size_t rows = 0;
  for (const std::string& scope : scopes_of(result, stage)) {
    const auto found = measured.find({cell.name, stage, scope});
    const std::size_t n = found == measured.end() ? 0 : found->second;
    rows += n;
    if (n == 0 && !skipped.contains("all") && !skipped.contains(scope)) missing.push_back(scope);
  }
  if (!missing.empty()) {
    criteria.push_back(completed(stage, cell.name, missing.size() == 1 ? missing.front() : "all", Outcome::inconclusive,
                                 why_missing(result, stage)));
    if (stage == Stage::per_host) {
      criteria.back().found = fmt::format("{} of {} hosts", missing.size(), scopes_of(result, stage).size());
    }
    return;
  }
  // The sizes after the one under way are missing too, and nothing else would say so.
  const bool unfinished = !result.done.empty() && !contains(result.done, fmt::format("{}/{}", name(stage), cell.name));
  if (rows == 0) return;
  criteria.push_back(completed(stage, cell.name, "all", unfinished ? Outcome::inconclusive : Outcome::pass));
  criteria.back().found = counted(rows, "row") + " measured";
  if (unfinished) criteria.back().reason = fmt::format("the cell was not finished; {}", why_missing(result, stage));
}

/// Failures, and cells that were not measured.
void judge_completion(const AcceptResult& result, const std::vector<CellSeries>& all, CriterionResults& criteria) {
  judge_failures(result, criteria);
  Measured measured;
  for (const CellSeries& s : all) ++measured[{s.plan->name, *s.first().stage, s.first().scope}];
  for (Stage stage : result.plan.stages) {
    for (const PlanCell& cell : result.plan.cells) {
      if (contains(cell.stages, stage)) judge_planned(result, cell, stage, measured, criteria);
    }
  }
}

bool plans(const AcceptResult& result, Stage stage) { return contains(result.plan.stages, stage); }

void judge_pairs(const AcceptResult& result, CriterionResults& criteria) {
  if (!result.located) {
    if (!plans(result, Stage::pairs)) return;
    const bool alone = result.hosts.size() < 2;
    criteria.push_back(about(Criterion::pairs, Stage::pairs, alone ? Outcome::skip : Outcome::inconclusive,
                             alone ? "one host has no pairs" : "the pairs were not measured"));
    return;
  }
  const AcceptResult::Located& l = *result.located;
  const AcceptResult found = result_of_locate(l);
  for (CriterionResult c : found.criteria) {
    if (failed_once(l)) c.outcome = std::min(c.outcome, Outcome::warn);
    if (l.failed > 0 && l.looks > 1 && c.scope == "all") {
      c.reason = fmt::format("{} of {} looks{}", l.failed, l.looks,
                             failed_once(l) ? ": one alone may be chance, busbar locate --soak looks longer" : "");
    }
    if (c.outcome == Outcome::skip && c.reason.empty())
      c.reason = without_outcome(std::exchange(c.found, {}), c.outcome);
    if (c.outcome == Outcome::skip && c.reason.empty()) c.reason = "there was nothing to compare";
    criteria.push_back(std::move(c));
  }
  // One look that finds a fault is enough; finding none is not, if most looks could not tell.
  if (l.looks > 1 && l.failed == 0 && l.finding.outcome < Outcome::inconclusive && 2 * l.unclear >= l.looks) {
    criteria.push_back(about(Criterion::pairs, Stage::pairs, Outcome::inconclusive,
                             fmt::format("{} of {} looks could not tell", l.unclear, l.looks)));
  }
  for (const AcceptResult::Located::SlowRank& slow : l.slow_ranks) {
    CriterionResult c = about(Criterion::pairs, Stage::pairs, slow.outcome);
    c.scope = fmt::format("rank {}", slow.rank);
    if (failed_once(l)) c.outcome = std::min(c.outcome, Outcome::warn);
    c.found = slow.text;
    if (slow.outcome >= Outcome::warn) c.hosts = {slow.host};
    criteria.push_back(std::move(c));
  }
}

void judge_counters(const AcceptResult& result, CriterionResults& criteria) {
  const auto& cells = result.plan.cells;
  if (std::ranges::none_of(cells, [](const PlanCell& cell) { return cell.criteria.counters; })) return;
  if (!result.counters_read) {
    criteria.push_back(about(Criterion::counters, Stage::doctor, Outcome::skip,
                             "error counters were not read before and after the run"));
    return;
  }
  std::size_t moved = 0;
  for (const DoctorRow& row : result.counters) {
    if (row.outcome == Outcome::pass || row.outcome == Outcome::skip) continue;
    ++moved;
    CriterionResult c = about(Criterion::counters, Stage::doctor, row.outcome, row.reason);
    c.cell = row.check;
    c.scope = row.subject;
    c.found = row.value;
    c.wanted = "unmoved";
    c.hosts = {row.subject.substr(0, row.subject.find(' '))};
    criteria.push_back(std::move(c));
  }
  if (moved > 0) return;
  criteria.push_back(about(Criterion::counters, Stage::doctor, Outcome::pass));
  criteria.back().found = fmt::format("no error counter moved on {}", counted(result.hosts.size(), "host"));
  criteria.back().wanted = "unmoved";
}

void judge_platform(const AcceptResult& result, const RecognisedPlatform& view, CriterionResults& criteria) {
  const std::string& asked = result.plan.platform;
  const bool named = !asked.empty() && asked != "auto";
  const bool on_gpus = traits_of(result.backend).memory == MemoryKind::gpu;
  CriterionResult c = about(Criterion::platform, Stage::doctor, Outcome::pass);
  c.wanted = named ? asked : result.plan.needs_gpus ? "GPUs" : "";
  c.found = view.platform != nullptr ? view.platform->name : on_gpus ? view.reason : "host memory";
  std::map<std::string, std::vector<std::string>> devices;
  for (const AcceptResult::Host& host : result.hosts) devices[host.device].push_back(host.name);
  if ((named || result.plan.needs_gpus) && !on_gpus) {
    c.outcome = Outcome::fail;
    c.reason = "the plan expects GPUs, and this ran on host memory: is NCCL found, does nvidia-smi see the GPUs?";
  } else if (named && (view.platform == nullptr || view.platform->name != asked)) {
    c.outcome = Outcome::fail;
    c.reason = view.platform != nullptr ? fmt::format("the devices are {}'s", view.platform->name) : view.reason;
  } else if (devices.size() > 1) {
    const auto most = std::ranges::max_element(
        devices, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    c.outcome = named ? Outcome::fail : Outcome::warn;
    std::vector<std::string> parts;
    for (const auto& [device, hosts] : devices) {
      parts.push_back(fmt::format("{} on {}", device, compress_hosts(hosts)));
      if (device != most->first) c.hosts.insert(c.hosts.end(), hosts.begin(), hosts.end());
    }
    c.reason = fmt::format("the hosts differ: {}", fmt::join(parts, ", "));
  } else if (asked.empty() && !result.plan.needs_gpus) {
    return;
  }
  criteria.push_back(std::move(c));
}

void judge_init(const AcceptResult& result, CriterionResults& criteria) {
  if (!result.plan.init) return;
  // Of one launch only its own time is known; of several, their times are the interval.
  const auto total_s = [](const AcceptResult::Init& init) { return init.create_s + init.first_op_s; };
  const std::vector<double> times_s = mapped(result.inits, total_s);
  Estimate e{.value = std::nan(""), .interval = {}};
  std::string found;
  if (!times_s.empty() && std::ranges::all_of(times_s, [](double t) { return std::isfinite(t); })) {
    const auto [least, most] = std::ranges::minmax(times_s);
    e = {.value = median(times_s), .interval = Interval{least, most}};
    const AcceptResult::Init& slowest = *std::ranges::max_element(result.inits, {}, total_s);
    found = times_s.size() == 1 ? fmt::format("{} ranks, {}", slowest.nranks, time_text(e.value))
                                : fmt::format("{} ranks, {} to {} in {} launches, the slowest", slowest.nranks,
                                              time_text(least), time_text(most), times_s.size());
    found +=
        fmt::format(": made in {}, first operation {}", time_text(slowest.create_s), time_text(slowest.first_op_s));
  }
  const BoundVerdict verdict = judge_bound(e, *result.plan.init, false);
  const bool differ = times_s.size() > 1 && e.interval && !verdict.reason.empty();
  criteria.push_back(
      about(Criterion::init, Stage::whole, verdict.outcome, differ ? "launches differ" : verdict.reason));
  criteria.back().found = std::move(found);
  criteria.back().wanted = bound_text(*result.plan.init, false, time_text);
}

/// That something ran, and on what, is not a judgment of it.
bool is_judgement(const CriterionResult& c) {
  return c.outcome != Outcome::skip &&
         (c.outcome != Outcome::pass || (c.criterion != Criterion::completed && c.criterion != Criterion::platform));
}

}  // namespace

void judge_acceptance(AcceptResult& result, const std::vector<Platform>& platforms, const AcceptResult* baseline) {
  const RecognisedPlatform view = result.plan.platform.empty()
                                      ? RecognisedPlatform{nullptr, "the plan expects no platform"}
                                      : recognise_platform(platforms, result.hosts);
  result.platform = view.platform != nullptr ? view.platform->name : "";
  const std::vector<CellSeries> all = series_of(result);
  CriterionResults criteria;
  judge_completion(result, all, criteria);
  judge_platform(result, view, criteria);
  judge_init(result, criteria);
  if (!result.doctor.empty()) {
    const AcceptResult found = result_of_doctor(result.doctor, join_nodes(result.doctor));
    criteria.insert(criteria.end(), found.criteria.begin(), found.criteria.end());
  } else if (plans(result, Stage::doctor)) {
    criteria.push_back(about(Criterion::doctor, Stage::doctor, Outcome::inconclusive, "no node was checked"));
  }
  judge_pairs(result, criteria);
  judge_counters(result, criteria);
  for (const CellSeries& series : all) {
    judge_cell(result, view, series, criteria);
    if (series.plan->criteria.drift) criteria.push_back(judge_drift(series));
    if (series.plan->criteria.rank_spread) criteria.push_back(judge_ranks(series));
  }
  judge_hosts(all, criteria);
  judge_baseline(result, all, baseline, criteria);
  result.outcome = std::ranges::any_of(criteria, is_judgement) ? Outcome::pass : Outcome::inconclusive;
  for (const CriterionResult& c : criteria) result.outcome = worse(result.outcome, c.outcome);
  result.criteria = std::move(criteria);
  result.next = next_step(result);
}

}  // namespace busbar
