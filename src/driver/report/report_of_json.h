#pragma once

#include "common/record/accept_result.h"
#include "common/record/read_run.h"
#include "driver/report/report_data.h"

#include <string>
#include <string_view>

namespace busbar {

// Result files that are read for the report alone. Each throws Error(bad_config) that names the file and what is
// missing or of another type in it; `source` names the file in the report where there are several, else it is empty.

/// Adds what a benchmark wrote with -J; `source` names its file where there are several, else it is empty. With --stat
/// the lines are the medians with their intervals. Wrong data is a FAIL; beyond that a benchmark judges nothing. Pure.
void add_run(ReportData& data, const RunFile& run, const std::string& source);

/// `compare -J`: a line per variant, and who wins at which size.
void add_comparisons(ReportData& data, std::string_view text, const std::string& name, const std::string& source);

/// `merge -J`: medians over launches with the interval that only launches give.
void add_merged(ReportData& data, std::string_view text, const std::string& name, const std::string& source);

/// `locate -J`: who is slow, and the heat map.
void add_locate(ReportData& data, std::string_view text, const std::string& name, const std::string& source);

/// Adds what a run of `accept` found; `source` names its file where there are several, else it is empty. The outcome
/// and the verdict's lines become those of the worst run that was added. Pure.
void add_accept(ReportData& data, const AcceptResult& result, const std::string& source = "");

}  // namespace busbar
