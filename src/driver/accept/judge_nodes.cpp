#include "common/backends/backend_traits.h"
#include "common/base/compress_list.h"
#include "driver/accept/judge_acceptance.h"
#include "driver/accept/judge_parts.h"
#include "driver/doctor/join_nodes.h"
#include "driver/verdict/tool_result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

namespace busbar {
namespace {

bool plans(const AcceptResult& result, Stage stage) {
  return std::find(result.plan.stages.begin(), result.plan.stages.end(), stage) != result.plan.stages.end();
}

CriterionResult about(Criterion criterion, Stage stage, Outcome outcome) {
  CriterionResult c;
  c.criterion = criterion;
  c.stage = stage;
  c.scope = "all";
  c.outcome = outcome;
  return c;
}

void judge_doctor(const AcceptResult& result, CriterionResults& criteria) {
  if (result.doctor.empty()) {
    if (!plans(result, Stage::doctor)) return;
    criteria.push_back(about(Criterion::doctor, Stage::doctor, Outcome::inconclusive));
    criteria.back().reason = "no node was looked at";
    return;
  }
  const AcceptResult found = result_of_doctor(result.doctor, join_nodes(result.doctor));
  criteria.insert(criteria.end(), found.criteria.begin(), found.criteria.end());
}

std::string looks_text(const AcceptResult::Located& l) {
  return fmt::format("{} of {} looks{}", l.failed, l.looks,
                     failed_once(l) ? ": one alone may be chance, busbar locate --soak looks longer" : "");
}

void judge_pairs(const AcceptResult& result, CriterionResults& criteria) {
  if (!result.located) {
    if (!plans(result, Stage::pairs)) return;
    const bool alone = result.hosts.size() < 2;
    criteria.push_back(about(Criterion::pairs, Stage::pairs, alone ? Outcome::skip : Outcome::inconclusive));
    criteria.back().reason = alone ? "one host has no pairs" : "the pairs were not measured";
    return;
  }
  const AcceptResult::Located& l = *result.located;
  const AcceptResult found = result_of_locate(l.unit, l.units, l.finding, l.matrix);
  for (CriterionResult c : found.criteria) {
    if (failed_once(l)) c.outcome = std::min(c.outcome, Outcome::warn);
    if (l.failed > 0 && l.looks > 1 && c.scope == "all") c.reason = looks_text(l);
    if (c.outcome == Outcome::skip && c.reason.empty()) c.reason = std::exchange(c.found, {});
    if (c.outcome == Outcome::skip && c.reason.empty()) c.reason = "there was nothing to compare";
    criteria.push_back(std::move(c));
  }
  // Found out by one look is found; not found by the few that could tell is not.
  if (l.looks > 1 && l.failed == 0 && l.finding.outcome < Outcome::inconclusive && 2 * l.unclear >= l.looks) {
    criteria.push_back(about(Criterion::pairs, Stage::pairs, Outcome::inconclusive));
    criteria.back().reason = fmt::format("{} of {} looks could not tell", l.unclear, l.looks);
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
  if (std::none_of(cells.begin(), cells.end(), [](const PlanCell& cell) { return cell.criteria.counters; })) return;
  if (!result.counters_read) {
    criteria.push_back(about(Criterion::counters, Stage::doctor, Outcome::skip));
    criteria.back().reason = "error counters were not read before and after the run";
    return;
  }
  std::size_t moved = 0;
  for (const DoctorRow& row : result.counters) {
    if (row.outcome == Outcome::pass || row.outcome == Outcome::skip) continue;
    ++moved;
    CriterionResult c = about(Criterion::counters, Stage::doctor, row.outcome);
    c.cell = row.check;
    c.scope = row.subject;
    c.found = row.value;
    c.wanted = "unmoved";
    c.reason = row.reason;
    c.hosts = {row.subject.substr(0, row.subject.find(' '))};
    criteria.push_back(std::move(c));
  }
  if (moved > 0) return;
  criteria.push_back(about(Criterion::counters, Stage::doctor, Outcome::pass));
  criteria.back().found =
      fmt::format("no error counter moved on {} host{}", result.hosts.size(), result.hosts.size() == 1 ? "" : "s");
  criteria.back().wanted = "unmoved";
}

}  // namespace

void judge_platform(const AcceptResult& result, const PlatformView& view, CriterionResults& criteria) {
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
    const auto most = std::max_element(devices.begin(), devices.end(),
                                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
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

void judge_nodes(const AcceptResult& result, CriterionResults& criteria) {
  judge_doctor(result, criteria);
  judge_pairs(result, criteria);
  judge_counters(result, criteria);
}

}  // namespace busbar
