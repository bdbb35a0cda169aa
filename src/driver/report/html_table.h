#pragma once

#include "driver/report/report_data.h"

#include <cstddef>
#include <string>

namespace busbar {

/// The table with its caption, in a box that scrolls by itself and can be reached by keyboard; at most `most` rows, the
/// rest counted. Columns whose cells all begin like numbers stand to the right.
std::string html_table(const ReportTable& table, std::size_t most = 400);

/// "FAIL" in the colours of its kind.
std::string html_outcome(Outcome outcome);

/// Name of the style's class for an outcome: "fail".
const char* outcome_class(Outcome outcome);

}  // namespace busbar
