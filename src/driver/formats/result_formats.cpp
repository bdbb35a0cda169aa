#include "driver/formats/result_formats.h"

#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/csv_report.h"
#include "common/record/culprit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace busbar {
namespace {

std::string figure(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string cell_line(const Cell& c) {
  const auto& ci = c.interval_s;
  const auto& bw = c.busbw_interval;
  return fmt::format(
      "cell,{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},,,,,,,\n", name(*c.stage), csv_field(c.scope),
      csv_field(c.cell), csv_field(c.collective), csv_field(c.dtype), csv_field(c.op), c.nbytes, place(c.in_place),
      c.nranks, c.nhosts, c.repetition, csv_field(c.algorithm), csv_microseconds(c.median_s),
      ci ? csv_microseconds(ci->low) : "", ci ? csv_microseconds(ci->high) : "", c.busbw > 0 ? figure(c.busbw) : "",
      bw ? figure(bw->low) : "", bw ? figure(bw->high) : "", c.wrong ? std::to_string(*c.wrong) : "", name(c.stop));
}

std::string criterion_line(const CriterionResult& c) {
  return fmt::format("criterion,{},{},{},,,,{},{},,,,,,,,,,,,,{},{},{},{},{},{},{}\n", name(c.stage),
                     csv_field(c.scope), csv_field(c.cell), c.nbytes > 0 ? std::to_string(c.nbytes) : "",
                     c.nbytes > 0 ? place(c.in_place) : "", name(c.criterion), name(c.outcome), csv_field(c.found),
                     csv_field(c.wanted), csv_field(c.source), csv_field(c.reason), csv_field(joined_words(c.hosts)));
}

constexpr std::size_t kMostReasons = 8;  // of one check, in one field of a file

/// One check over all nodes and subjects: whether it passes must not depend on how findings are grouped, nor its name.
struct CheckSum {
  CriterionResult criterion;
  std::vector<std::string> found;

  void judge(Outcome outcome) { criterion.outcome = worse(criterion.outcome, outcome); }
  void remedy(const std::string& text) {
    std::string& all = criterion.reason;
    if (all.find(text) == std::string::npos) all += (all.empty() ? "do: " : "; ") + text;
  }
  void blame(const std::vector<std::string>& names) {
    for (const std::string& place : names) {
      add_once(criterion.hosts, place.substr(0, place.find(' ')));  // "node17 rank 3"
    }
  }
};

CheckSum& sum_of(std::vector<CheckSum>& sums, const std::string& check) {
  const auto at = std::ranges::find_if(sums, [&](const CheckSum& s) { return s.criterion.cell == check; });
  if (at != sums.end()) return *at;
  CriterionResult& c = sums.emplace_back().criterion;
  c.criterion = Criterion::doctor;
  c.stage = Stage::doctor;
  c.cell = check;
  c.scope = "all";
  c.outcome = Outcome::skip;
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

std::string accept_csv(const AcceptResult& result) {
  std::string text =
      "record,stage,scope,cell,collective,dtype,op,size_bytes,placement,nranks,nhosts,repetition,algorithm,median_us,"
      "ci_low_us,ci_high_us,"
      "busbw_gbps,busbw_low_gbps,busbw_high_gbps,wrong,stop,criterion,outcome,found,wanted,source,reason,hosts\n";
  for (const Cell& cell : result.cells) text += cell_line(cell);
  for (const CriterionResult& criterion : result.criteria) text += criterion_line(criterion);
  return text;
}

std::vector<std::string> blamed_hosts(const AcceptResult& result) {
  std::vector<std::string> blamed;
  const auto add = [&](const std::vector<std::string>& hosts) {
    for (const std::string& host : hosts) add_once(blamed, host);
  };
  for (const StageFailure& f : result.failures) add(f.hosts);
  for (const CriterionResult& c : result.criteria) {
    if (c.outcome == Outcome::fail) add(c.hosts);
  }
  return blamed;
}

double run_time_s(const AcceptResult& result) {
  const auto start = parse_local_timestamp(result.start_time);
  const auto end = parse_local_timestamp(result.end_time);
  return start && end && *end > *start ? static_cast<double>(*end - *start) : 0;
}

AcceptResult result_of_doctor(const std::vector<NodeReport>& nodes, const DoctorVerdict& verdict) {
  AcceptResult result;
  result.plan.stages = {Stage::doctor};
  result.doctor = nodes;
  result.outcome = verdict.outcome;
  std::vector<CheckSum> sums;
  for (const NodeReport& node : nodes) {
    result.hosts.push_back({.name = node.host, .ranks = node.ranks, .device = {}});
    for (const DoctorRow& row : node.rows) sum_of(sums, row.check).judge(row.outcome);
  }
  for (const DoctorVerdict::Unequal& unequal : verdict.unequal) {
    CheckSum& sum = sum_of(sums, unequal.check);
    sum.judge(unequal.outcome);
    sum.found.push_back(unequal_text(unequal));
    sum.remedy(unequal.remedy);
    std::size_t places = 0;
    for (const auto& value : unequal.values) places += value.places.size();
    // Those that most nodes do not have; none if no value has the majority, and nobody can tell who is wrong.
    for (std::size_t i = 1; i < unequal.values.size(); ++i) {
      if (2 * unequal.values.front().places.size() > places) sum.blame(unequal.values[i].places);
    }
  }
  for (const DoctorVerdict::Line& line : verdict.lines) {
    CheckSum& sum = sum_of(sums, line.row.check);
    sum.judge(line.row.outcome);
    // Why something was skipped on one node says nothing about a failure on another.
    if (line.row.outcome == Outcome::skip && sum.criterion.outcome != Outcome::skip) continue;
    sum.found.push_back(line_text(line));
    if (line.row.outcome == Outcome::skip) continue;
    sum.blame(line.hosts);
    sum.remedy(line.row.remedy);
  }
  for (CheckSum& sum : sums) {
    CriterionResult& c = result.criteria.emplace_back(std::move(sum.criterion));
    const std::size_t left_out = sum.found.size() - std::min(sum.found.size(), kMostReasons);
    sum.found.resize(sum.found.size() - left_out);
    (c.outcome == Outcome::skip ? c.reason : c.found) =
        joined_words(sum.found, "; ") + (left_out > 0 ? fmt::format("; and {} more", left_out) : "");
  }
  return result;
}

AcceptResult result_of_locate(const AcceptResult::Located& located) {
  const LocateVerdict& verdict = located.finding;
  const std::vector<std::string>& units = located.units;
  AcceptResult result;
  result.plan.stages = {Stage::pairs};
  result.outcome = verdict.outcome;
  result.located = located;
  CriterionResult whole;
  whole.criterion = Criterion::pairs;
  whole.stage = Stage::pairs;
  whole.scope = "all";
  whole.outcome = verdict.outcome;
  whole.found = verdict.culprits.empty() ? headline(verdict, units)
                                         : fmt::format("{} among {}", counted(verdict.culprits.size(), "culprit"),
                                                       counted(units.size(), name(located.unit)));
  result.criteria.push_back(std::move(whole));
  for (const Culprit& culprit : verdict.culprits) result.criteria.push_back(criterion_of(culprit, located.unit, units));
  return result;
}

}  // namespace busbar
