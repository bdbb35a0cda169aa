#pragma once

#include "common/record/accept_result.h"
#include "driver/report/report_data.h"

#include <string>

namespace busbar {

/// Adds the search for slow pairs: who is to blame as a table, and the heat map. Says nothing about the verdict. Pure.
void add_located(ReportData& data, const AcceptResult::Located& located, const std::string& source);

}  // namespace busbar
