#pragma once

#include "driver/report/report_data.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace busbar {

/// The report as one HTML file that needs no network: plain HTML that says everything in tables, and a script that adds
/// charts and the heat map. Kept below 2 MB however much was measured: what is left out is counted in the text. Pure.
std::string report_html(const ReportData& data);

// What pages are made of.

/// Foreign text for HTML, between tags or in a quoted attribute: &, <, >, " and ' escaped; bytes that are no UTF-8,
/// control characters and those that reverse the direction of writing replaced; cut with an ellipsis after `most`
/// bytes.
std::string html_text(std::string_view text, std::size_t most = 2000);

/// For people, three significant digits: "12.3 µs", "4.57 ms", "2.00 s".
std::string time_words(double time_s);

/// For people: "0.0123", "12.3", "1234".
std::string three_digits(double value);

/// The table with its caption, in a box that scrolls by itself and can be reached by keyboard; at most `most` rows, the
/// rest counted. Columns whose cells all begin like numbers stand to the right.
std::string html_table(const ReportTable& table, std::size_t most = 400);

/// "FAIL" in the colours of its kind.
std::string html_outcome(Outcome outcome);

/// Name of the style's class for an outcome: "fail".
const char* outcome_class(Outcome outcome);

}  // namespace busbar
