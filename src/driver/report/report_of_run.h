#pragma once

#include "common/record/read_run.h"
#include "driver/report/report_data.h"

#include <string>

namespace busbar {

/// Adds what a benchmark wrote with -J; `source` names its file where there are several, else it is empty. With --stat
/// the lines are the medians with their intervals. Wrong data is a FAIL; beyond that a benchmark judges nothing. Pure.
void add_run(ReportData& data, const RunFile& run, const std::string& source);

}  // namespace busbar
