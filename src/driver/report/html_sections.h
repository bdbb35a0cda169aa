#pragma once

#include "driver/report/report_charts.h"
#include "driver/report/report_data.h"

#include <cstddef>
#include <string>
#include <vector>

namespace busbar {

// The parts of the page. Everything that they say is there without the script too.

/// Outcome, headline, lines.
std::string verdict_section(const ReportData& data, std::size_t most_lines);

/// A pair of charts for the script to fill, and the values as a table.
std::string chart_section(const ReportChart& chart, std::size_t index, std::size_t most_rows);

/// A heat map for the script to fill, and its slowest pairs as a table.
std::string matrix_section(const ReportMatrix& matrix, std::size_t index, int most_squares);

/// Ranks for the script to draw, and of each cell the latest and slowest as a table; there is at least one cell.
std::string skew_section(const std::vector<ReportSkew>& skews, std::size_t most_tables);

/// How a file came about; of a fact so many lines.
std::string run_section(const ReportRun& run, std::size_t most_lines);

}  // namespace busbar
