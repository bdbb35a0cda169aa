#include "driver/doctor/changed_rows.h"

#include "driver/doctor/counters.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace busbar {
namespace {

using RowKey = std::tuple<std::string, std::string, std::vector<int>>;

std::map<RowKey, const DoctorRow*> rows_by_key(const NodeReport& node) {
  std::map<RowKey, const DoctorRow*> index;
  for (const DoctorRow& row : node.rows) index.try_emplace({row.check, row.subject, row.ranks}, &row);
  return index;
}

const NodeReport* find_host(const std::vector<NodeReport>& nodes, const std::string& host) {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const NodeReport& n) { return n.host == host; });
  return found == nodes.end() ? nullptr : &*found;
}

bool is_bad(const DoctorRow& row) { return row.outcome != Outcome::pass && row.outcome != Outcome::skip; }

bool counts_alone(const DoctorRow& row) { return is_bad(row) || row.must_agree; }

bool differ(const DoctorRow& before, const DoctorRow& after) {
  if (before.outcome != after.outcome) return true;
  return before.value != after.value && (before.must_agree || after.must_agree);
}

void compare_node(const NodeReport& before, const NodeReport& after, std::vector<ChangedRow>& changes) {
  const auto old = rows_by_key(before);
  const auto now = rows_by_key(after);
  for (const auto& [key, row] : now) {
    const auto found = old.find(key);
    if (found == old.end()) {
      if (counts_alone(*row)) changes.push_back({after.host, std::nullopt, *row});
    } else if (differ(*found->second, *row)) {
      changes.push_back({after.host, *found->second, *row});
    }
  }
  for (const auto& [key, row] : old) {
    if (!now.contains(key) && counts_alone(*row)) changes.push_back({after.host, *row, std::nullopt});
  }
}

}  // namespace

std::vector<ChangedRow> changed_rows(const std::vector<NodeReport>& before, const std::vector<NodeReport>& after) {
  std::vector<ChangedRow> changes;
  for (const NodeReport& node : after) {
    if (const NodeReport* old = find_host(before, node.host)) compare_node(*old, node, changes);
  }
  const auto badness = [](const ChangedRow& change) { return change.after ? change.after->outcome : Outcome::skip; };
  std::stable_sort(changes.begin(), changes.end(),
                   [&](const ChangedRow& a, const ChangedRow& b) { return badness(a) > badness(b); });
  return changes;
}

std::vector<std::string> missing_hosts(const std::vector<NodeReport>& one, const std::vector<NodeReport>& other) {
  std::vector<std::string> hosts;
  for (const NodeReport& node : one) {
    if (find_host(other, node.host) == nullptr) hosts.push_back(node.host);
  }
  return hosts;
}

std::vector<NodeReport> moved_on_nodes(const std::vector<NodeReport>& before, const std::vector<NodeReport>& after) {
  std::vector<NodeReport> moved;
  for (const NodeReport& node : after) {
    const NodeReport* old = find_host(before, node.host);
    if (old == nullptr || node.time_s <= old->time_s) continue;
    NodeReport report;
    report.host = node.host;
    report.rows = moved_counters(old->counters, node.counters, node.time_s - old->time_s);
    moved.push_back(std::move(report));
  }
  return moved;
}

}  // namespace busbar
