#pragma once

#include "driver/report/report_data.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The report as one HTML file that needs no network: plain HTML that says everything in tables, and a script that adds
/// charts and the heat map. Kept below 2 MB however much was measured: what is left out is counted in the text. Pure.
std::string report_html(const ReportData& data);

// What pages are built from.

/// Untrusted text for HTML, between tags or in a quoted attribute: &, <, >, " and ' escaped; bytes that are no UTF-8,
/// control characters and those that reverse the direction of writing replaced; cut with an ellipsis after `most`
/// bytes.
std::string html_text(std::string_view text, std::size_t most = 2000);

/// For people, three significant digits: "12.3 µs", "4.57 ms", "2.00 s".
std::string time_words(double time_s);

/// For people: "0.0123", "12.3", "1234".
std::string three_digits(double value);

/// The table with its caption, in a box that scrolls by itself and can be reached by keyboard; at most `most` rows, the
/// rest counted. Columns whose cells all begin like numbers are aligned right.
std::string html_table(const ReportTable& table, std::size_t most = 400);

/// A picture that needs no script: what each rank's GPU does. Empty if there is none.
std::string html_lanes(const std::vector<ReportLanes>& ranks);

// What its charts are.

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

/// Divides the lines into charts that an eye can read: one if few lines come from one file; else by collective and,
/// if that is still too full, by type, scope, placement and variant. Expected lines stay with theirs. The lines
/// point into `series`. Pure.
std::vector<ReportChart> group_charts(const std::vector<ReportSeries>& series);

/// The chart's values as a table, a row per line and size.
ReportTable values_of(const ReportChart& chart);

/// What the report's script draws, as JSON that may be inside a script element whatever the names are. At most
/// `most_squares` squares a side of a matrix: of larger ones each square is several units, and the slowest pair in it.
std::string charts_json(const std::vector<ReportChart>& charts, const std::vector<ReportMatrix>& matrices,
                        const std::vector<ReportSkew>& skews, int most_squares = 512);

}  // namespace busbar
