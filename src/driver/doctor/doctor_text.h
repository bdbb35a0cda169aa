#pragma once

#include "common/record/node_report.h"
#include "driver/doctor/changed_rows.h"

#include <string>
#include <vector>

namespace busbar {

/// The verdict in one line, then what must agree and does not, then the findings by the nodes that have them, each with
/// its remedy, then what could not be looked at.
std::string doctor_text(const DoctorFinding& finding);

/// Every row of every node: --verbose.
std::string doctor_rows_text(const std::vector<NodeReport>& nodes);

/// Two reports against each other.
struct DoctorDifference {
  std::string before;  ///< the older report's file
  double seconds = 0;  ///< between them; 0: not told
  std::vector<ChangedRow> changes;
  std::vector<DoctorRow> counters;  ///< that moved and harm nothing; the others are among the findings
  std::vector<std::string> gone;    ///< nodes that only the older one has
  std::vector<std::string> added;   ///< nodes that only the newer one has
};
std::string doctor_difference_text(const DoctorDifference& difference);

}  // namespace busbar
