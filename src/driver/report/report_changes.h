#pragma once

#include "driver/report/report_data.h"

namespace busbar {

/// Where lines of several files are of the same cells: each against the first file's, size by size, as a table and a
/// line of the verdict. Two values differ only where their intervals do not overlap; without intervals nothing is
/// claimed. Pure.
void add_changes(ReportData& data);

}  // namespace busbar
