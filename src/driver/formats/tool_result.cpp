#include "driver/formats/tool_result.h"

#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/record/culprit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kMostReasons = 8;  // of one check, in one field of a file

/// One check over all nodes and subjects: whether it passes must not depend on how findings are grouped, nor its name.
struct CheckSum {
  std::string check;
  Outcome outcome = Outcome::skip;
  std::vector<std::string> found;
  std::vector<std::string> hosts;
  std::string remedies;
  std::size_t left_out = 0;

  void remedy(const std::string& text) {
    if (remedies.find(text) == std::string::npos) remedies += (remedies.empty() ? "do: " : "; ") + text;
  }

  void add(const std::string& text) {
    if (found.size() < kMostReasons) {
      found.push_back(text);
    } else {
      ++left_out;
    }
  }

  void blame(const std::vector<std::string>& names) {
    for (const std::string& place : names) add_once(hosts, place.substr(0, place.find(' ')));  // "node17 rank 3"
  }
};

CheckSum& sum_of(std::vector<CheckSum>& sums, const std::string& check) {
  const auto at = std::find_if(sums.begin(), sums.end(), [&](const CheckSum& s) { return s.check == check; });
  if (at != sums.end()) return *at;
  sums.push_back({.check = check, .outcome = Outcome::skip, .found = {}, .hosts = {}, .remedies = {}, .left_out = 0});
  return sums.back();
}

std::string line_text(const DoctorVerdict::Line& line) {
  const DoctorRow& row = line.row;
  std::string text = row.subject.empty() ? "" : row.subject + ": ";
  text += row.value;
  if (!row.reason.empty()) text += (row.value.empty() ? "" : ", ") + row.reason;
  return fmt::format("{} on {}", text, compress_hosts(line.hosts));
}

/// "libnccl: 2.28.9 on 63 nodes, 2.27.3 on node17".
std::string unequal_text(const DoctorVerdict::Unequal& unequal) {
  std::string text;
  for (const auto& value : unequal.values) {
    const bool common = text.empty() && value.places.size() > 1;
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", value.value,
                        common ? fmt::format("{} nodes", value.places.size()) : compress_hosts(value.places));
  }
  return unequal.subject.empty() ? text : fmt::format("{}: {}", unequal.subject, text);
}

/// Those that most nodes do not have; none where no value has the majority, and nobody can tell who is wrong.
std::vector<DoctorVerdict::Unequal::Value> odd_values(const DoctorVerdict::Unequal& unequal) {
  std::size_t places = 0;
  for (const auto& value : unequal.values) places += value.places.size();
  if (unequal.values.empty() || 2 * unequal.values.front().places.size() <= places) return {};
  return {unequal.values.begin() + 1, unequal.values.end()};
}

CriterionResult criterion_of(const Culprit& culprit, UnitKind unit, const std::vector<std::string>& units) {
  CriterionResult c;
  c.criterion = Criterion::pairs;
  c.stage = Stage::pairs;
  c.scope = who(culprit, units);
  c.outcome = culprit.outcome;
  c.found = describe(culprit, units);
  // A fabric that is slow only under load is not the fault of a host.
  if (unit == UnitKind::host && culprit.what != Culprit::What::contention) c.hosts = unit_names(culprit, units);
  return c;
}

}  // namespace

AcceptResult result_of_doctor(const std::vector<NodeReport>& nodes, const DoctorVerdict& verdict) {
  AcceptResult result;
  result.plan.stages = {Stage::doctor};
  result.doctor = nodes;
  result.outcome = verdict.outcome;
  std::vector<CheckSum> sums;
  for (const NodeReport& node : nodes) {
    result.hosts.push_back({.name = node.host, .ranks = node.ranks, .device = {}});
    for (const DoctorRow& row : node.rows) {
      CheckSum& sum = sum_of(sums, row.check);
      sum.outcome = worse(sum.outcome, row.outcome);
    }
  }
  for (const DoctorVerdict::Unequal& unequal : verdict.unequal) {
    CheckSum& sum = sum_of(sums, unequal.check);
    sum.outcome = worse(sum.outcome, unequal.outcome);
    sum.add(unequal_text(unequal));
    sum.remedy(unequal.remedy);
    for (const auto& odd : odd_values(unequal)) sum.blame(odd.places);
  }
  for (const DoctorVerdict::Line& line : verdict.lines) {
    CheckSum& sum = sum_of(sums, line.row.check);
    sum.outcome = worse(sum.outcome, line.row.outcome);
    // Why something was skipped on one node says nothing where another's failed.
    if (line.row.outcome == Outcome::skip && sum.outcome != Outcome::skip) continue;
    sum.add(line_text(line));
    if (line.row.outcome == Outcome::skip) continue;
    sum.blame(line.hosts);
    sum.remedy(line.row.remedy);
  }
  for (const CheckSum& sum : sums) {
    CriterionResult c;
    c.criterion = Criterion::doctor;
    c.cell = sum.check;
    c.stage = Stage::doctor;
    c.scope = "all";
    c.outcome = sum.outcome;
    const std::string text = fmt::format("{}", fmt::join(sum.found, "; "));
    c.reason = sum.remedies;
    (sum.outcome == Outcome::skip ? c.reason : c.found) =
        sum.left_out > 0 ? fmt::format("{}; and {} more", text, sum.left_out) : text;
    c.hosts = sum.hosts;
    result.criteria.push_back(std::move(c));
  }
  return result;
}

AcceptResult result_of_locate(UnitKind unit, const std::vector<std::string>& units, const LocateVerdict& verdict,
                              const std::vector<PairCell>& matrix) {
  AcceptResult result;
  result.plan.stages = {Stage::pairs};
  result.outcome = verdict.outcome;
  AcceptResult::Located located;
  located.unit = unit;
  located.units = units;
  located.finding = verdict;
  located.matrix = matrix;
  result.located = std::move(located);
  CriterionResult whole;
  whole.criterion = Criterion::pairs;
  whole.stage = Stage::pairs;
  whole.scope = "all";
  whole.outcome = verdict.outcome;
  whole.found = headline(verdict, units);
  result.criteria.push_back(std::move(whole));
  for (const Culprit& culprit : verdict.culprits) result.criteria.push_back(criterion_of(culprit, unit, units));
  return result;
}

}  // namespace busbar
