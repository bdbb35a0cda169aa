#pragma once

#include "common/record/accept_result.h"
#include "driver/report/report_data.h"

#include <string>

namespace busbar {

/// Adds what a run of `accept` found; `source` names its file where there are several, else it is empty. The outcome
/// and the verdict's lines become those of the worst run that was added. Pure.
void add_accept(ReportData& data, const AcceptResult& result, const std::string& source = "");

}  // namespace busbar
