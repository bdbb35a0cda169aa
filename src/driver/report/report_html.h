#pragma once

#include "driver/report/report_data.h"

#include <string>

namespace busbar {

/// The report as one HTML file that needs no network: plain HTML that says everything in tables, and a script that adds
/// charts and the heat map. Kept below 2 MB however much was measured: what is left out is counted in the text. Pure.
std::string report_html(const ReportData& data);

}  // namespace busbar
