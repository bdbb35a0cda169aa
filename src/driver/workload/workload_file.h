#pragma once

#include "driver/report/report_data.h"
#include "driver/workload/workload.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The job as YAML, which `busbar workload show` reads: a schema, then the fields of workload.h in their order.
std::string workload_yaml(const Workload& job);

/// Reads it back. Throws Error(bad_config) "FILE:LINE: WHAT" for unknown or missing keys, values of another kind, names
/// of groups that do not exist.
Workload read_workload(std::string_view text, const std::string& file);

/// The job as our JSON document.
std::string workload_json(const Workload& job);

/// The remarks, and what was left out.
std::vector<std::string> workload_remarks(const Workload& job);

/// What `import` and `show` print. `most`: rows of each table.
std::string workload_text(const Workload& job, std::size_t most);

/// The job as one HTML page, with a picture of a step if there is one.
std::string workload_html(const Workload& job, const std::vector<ReportLanes>& lanes, const std::string& title);

}  // namespace busbar
