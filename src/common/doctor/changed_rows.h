#pragma once

#include "common/doctor/node_report.h"

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

/// What the counters of nodes in both reports did between them, judged; the subject begins with the host. Pure.
std::vector<DoctorRow> moved_on_nodes(const std::vector<NodeReport>& before, const std::vector<NodeReport>& after);

}  // namespace busbar
