#pragma once

#include "common/record/accept_result.h"
#include "driver/report/report_data.h"

#include <string>

namespace busbar {

/// Adds accept's cells as lines, what was wanted of them as expected lines, and their ranks. Of hosts measured by
/// themselves, more than four become the median with the band of all, and the slowest. Pure.
void add_accept_lines(ReportData& data, const AcceptResult& result, const std::string& source);

}  // namespace busbar
