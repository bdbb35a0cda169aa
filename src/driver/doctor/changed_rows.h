#pragma once

#include "common/record/node_report.h"

#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// A check that ends otherwise than it did, or whose value must agree and is another one.
struct ChangedRow {
  std::string host;
  std::optional<DoctorRow> before;  ///< nothing: the row is new
  std::optional<DoctorRow> after;   ///< nothing: the row is gone
};

/// What is otherwise on the nodes that both reports have. Values that always move (free space, load) do not count; rows
/// that were OK and are gone, or are new and OK, only count where their value must agree. Pure.
std::vector<ChangedRow> changed_rows(const std::vector<NodeReport>& before, const std::vector<NodeReport>& after);

/// Nodes of `one` that `other` does not have.
std::vector<std::string> missing_hosts(const std::vector<NodeReport>& one, const std::vector<NodeReport>& other);

/// The counters of `before` against those of each node of `after`, judged: as rows of that node, to be joined like any
/// others. Nodes that only one of them has are left out. Pure.
std::vector<NodeReport> moved_on_nodes(const std::vector<NodeReport>& before, const std::vector<NodeReport>& after);

}  // namespace busbar
