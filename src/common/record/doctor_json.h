#pragma once

#include "common/record/json_values.h"
#include "common/record/node_report.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// One node's report with all rows, also OK ones, in the form of documents.
Json node_report_value(const NodeReport& node);

/// Reads it back. Throws Error(bad_config) saying what is wrong: the input is untrusted.
NodeReport read_node_report(const Json& value);

/// The document of `doctor -J`: the finding, then every node's report.
std::string doctor_json(const std::vector<NodeReport>& nodes, const DoctorVerdict& verdict);

/// The nodes' reports in such a document. `name`: the file's, for messages. Throws Error(bad_config).
std::vector<NodeReport> read_doctor_json(std::string_view text, const std::string& name);

}  // namespace busbar
