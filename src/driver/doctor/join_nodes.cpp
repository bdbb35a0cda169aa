#include "driver/doctor/join_nodes.h"

#include "common/base/compress_list.h"
#include "common/record/node_report.h"
#include "driver/doctor/find_unequal.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace busbar {
namespace {

using Line = DoctorFinding::Line;

/// What makes two rows the same finding. Not the value: free space, ages and loads differ on every node.
auto kind_of(const DoctorRow& row) { return std::tuple(row.check, row.subject, row.outcome, row.reason, row.remedy); }

void add_ranks(std::vector<int>& ranks, const std::vector<int>& more) {
  std::set<int> all(ranks.begin(), ranks.end());
  all.insert(more.begin(), more.end());
  ranks.assign(all.begin(), all.end());
}

constexpr const char* kOthers = " and others";

void note_value(DoctorRow& row, const std::string& value) {
  if (value != row.value && !row.value.ends_with(kOthers)) row.value += kOthers;
}

std::vector<Line> lines_of(const std::vector<NodeReport>& nodes) {
  std::vector<Line> lines;
  std::map<decltype(kind_of(DoctorRow())), std::size_t> at;
  for (const NodeReport& node : nodes) {
    for (const DoctorRow& row : node.rows) {
      if (row.outcome == Outcome::pass) continue;
      const auto [found, is_new] = at.try_emplace(kind_of(row), lines.size());
      if (is_new) {
        lines.push_back({row, {node.host}});
        continue;
      }
      Line& line = lines[found->second];
      note_value(line.row, row.value);
      add_ranks(line.row.ranks, row.ranks);
      if (line.hosts.back() != node.host) line.hosts.push_back(node.host);
    }
  }
  return lines;
}

/// One limited member of a partition talks with full ones; two cannot talk with each other.
void judge_across_nodes(std::vector<Line>& lines) {
  for (Line& line : lines) {
    const bool several = line.row.check == "rdma.pkey" && line.row.outcome == Outcome::warn && line.hosts.size() > 1;
    if (several) line.row.outcome = Outcome::fail;
  }
}

/// Eight ports with the same trouble on the same nodes are one line about "mlx5_[0-7]".
std::vector<Line> join_subjects(std::vector<Line> lines) {
  std::vector<Line> joined;
  std::vector<std::vector<std::string>> subjects;
  std::map<std::tuple<std::string, Outcome, std::string, std::string, std::vector<std::string>, std::vector<int>>,
           std::size_t>
      at;
  for (Line& line : lines) {
    const DoctorRow& r = line.row;
    const auto [found, is_new] =
        at.try_emplace({r.check, r.outcome, r.reason, r.remedy, line.hosts, r.ranks}, joined.size());
    if (is_new) {
      subjects.push_back({r.subject});
      joined.push_back(std::move(line));
    } else {
      subjects[found->second].push_back(r.subject);
      note_value(joined[found->second].row, r.value);
    }
  }
  for (std::size_t i = 0; i < joined.size(); ++i) {
    if (subjects[i].size() > 1) joined[i].row.subject = compress_hosts(subjects[i]);
  }
  return joined;
}

}  // namespace

DoctorFinding join_nodes(const std::vector<NodeReport>& nodes) {
  DoctorFinding finding;
  finding.nodes = nodes.size();
  finding.unequal = find_unequal(nodes);
  finding.lines = lines_of(nodes);
  judge_across_nodes(finding.lines);
  finding.lines = join_subjects(std::move(finding.lines));
  std::stable_sort(finding.lines.begin(), finding.lines.end(),
                   [](const Line& a, const Line& b) { return a.row.outcome > b.row.outcome; });
  for (const auto& unequal : finding.unequal) finding.outcome = worse(finding.outcome, unequal.outcome);
  for (const Line& line : finding.lines) finding.outcome = worse(finding.outcome, line.row.outcome);
  for (const NodeReport& node : nodes) {
    finding.ok += static_cast<std::size_t>(std::count_if(
        node.rows.begin(), node.rows.end(), [](const DoctorRow& row) { return row.outcome == Outcome::pass; }));
  }
  return finding;
}

}  // namespace busbar
