#pragma once

#include "common/record/json_values.h"
#include "common/record/node_report.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// One node's report, all rows, OK ones too, as documents hold it.
Json node_report_value(const NodeReport& node);

/// Reads it back. Throws Error(bad_config) saying what is wrong in it; nothing in it is taken on trust.
NodeReport read_node_report(const Json& value);

/// What `doctor -J` writes: the finding, then every node's report.
std::string doctor_json(const std::vector<NodeReport>& nodes, const DoctorVerdict& verdict);

/// The nodes' reports of such a document. `name`: of the file, for messages. Throws Error(bad_config).
std::vector<NodeReport> read_doctor_json(std::string_view text, const std::string& name);

}  // namespace busbar
