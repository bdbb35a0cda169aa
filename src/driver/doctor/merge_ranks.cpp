#include "common/record/node_report.h"
#include "driver/doctor/join_nodes.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace busbar {
namespace {

auto fields_of(const DoctorRow& row) {
  return std::tuple(row.check, row.subject, row.outcome, row.value, row.reason, row.remedy, row.must_agree,
                    row.if_differs);
}

}  // namespace

NodeReport merge_ranks(const std::vector<NodeReport>& parts) {
  NodeReport node;
  if (parts.empty()) return node;
  node.host = parts.front().host;
  node.time = parts.front().time;
  node.time_s = parts.front().time_s;
  node.counters = parts.front().counters;
  std::map<decltype(fields_of(DoctorRow())), std::size_t> at;
  for (const NodeReport& part : parts) {
    node.ranks.insert(node.ranks.end(), part.ranks.begin(), part.ranks.end());
    for (const DoctorRow& row : part.rows) {
      const auto [found, is_new] = at.try_emplace(fields_of(row), node.rows.size());
      if (is_new) {
        node.rows.push_back(row);
        node.rows.back().ranks.clear();
      }
      std::vector<int>& ranks = node.rows[found->second].ranks;
      for (const int rank : part.ranks) {
        if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
      }
    }
  }
  std::sort(node.ranks.begin(), node.ranks.end());
  for (DoctorRow& row : node.rows) {
    std::sort(row.ranks.begin(), row.ranks.end());
    if (row.ranks == node.ranks) row.ranks.clear();
  }
  return node;
}

}  // namespace busbar
