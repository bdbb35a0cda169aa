#pragma once

#include "driver/report/report_data.h"

#include <string>
#include <vector>

namespace busbar {

/// One pair of charts, bandwidth and time over size.
struct ReportChart {
  struct Line {
    std::string label;  ///< what tells it from the chart's other lines
    const ReportSeries* series = nullptr;
  };
  std::string title;
  std::string caption;  ///< what all lines share
  std::vector<Line> lines;
};

/// Divides the lines into charts that an eye can read: one where few lines come from one file; else by collective and,
/// where that is still too full, by type, scope, placement and variant. Expected lines stay with theirs. The lines
/// point into `series`. Pure.
std::vector<ReportChart> group_charts(const std::vector<ReportSeries>& series);

/// The chart's values as a table, a row per line and size.
ReportTable values_of(const ReportChart& chart);

/// What the report's script draws, as JSON that may stand inside a script element whatever the names are. At most
/// `most_squares` squares a side of a matrix: of larger ones each square is several units, and the slowest pair in it.
std::string charts_json(const std::vector<ReportChart>& charts, const std::vector<ReportMatrix>& matrices,
                        const std::vector<ReportSkew>& skews, int most_squares = 512);

}  // namespace busbar
