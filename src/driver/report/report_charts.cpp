#include "driver/report/report_charts.h"

#include "common/base/units.h"
#include "driver/report/html_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

/// More are told apart with difficulty.
constexpr std::size_t kMostLines = 8;

using Lines = std::vector<const ReportSeries*>;
using ChartPart = std::string ReportSeries::*;

/// In the order in which charts are divided; `source` never divides one: runs are compared within a chart.
constexpr std::array<ChartPart, 5> kDividers{&ReportSeries::collective, &ReportSeries::type, &ReportSeries::scope,
                                             &ReportSeries::placement, &ReportSeries::variant};
/// In the order in which they stand in a label.
constexpr std::array<ChartPart, 6> kLabel{&ReportSeries::source,    &ReportSeries::collective, &ReportSeries::type,
                                          &ReportSeries::placement, &ReportSeries::variant,    &ReportSeries::scope};

/// The different texts of a part, as they first appear.
std::vector<std::string> texts_of(const Lines& lines, ChartPart part) {
  std::vector<std::string> texts;
  for (const ReportSeries* line : lines) {
    if (std::find(texts.begin(), texts.end(), line->*part) == texts.end()) texts.push_back(line->*part);
  }
  return texts;
}

void divide(const Lines& lines, std::vector<Lines>& charts) {
  const auto measured = std::count_if(lines.begin(), lines.end(), [](const ReportSeries* s) { return !s->expected; });
  const bool several_files = texts_of(lines, &ReportSeries::source).size() > 1;
  for (ChartPart part : kDividers) {
    const bool apart = several_files && part == &ReportSeries::collective;
    if (static_cast<std::size_t>(measured) <= kMostLines && !apart) continue;
    const auto texts = texts_of(lines, part);
    if (texts.size() < 2) continue;
    for (const std::string& text : texts) {
      Lines some;
      std::copy_if(lines.begin(), lines.end(), std::back_inserter(some),
                   [&](const ReportSeries* s) { return s->*part == text; });
      divide(some, charts);
    }
    return;
  }
  charts.push_back(lines);
}

void join(std::string& list, const std::string& text, const char* between) {
  if (!text.empty()) list += (list.empty() ? "" : between) + text;
}

ReportChart chart_of(const Lines& lines) {
  ReportChart chart;
  std::vector<ChartPart> different;
  for (ChartPart part : kLabel) {
    const auto texts = texts_of(lines, part);
    if (texts.size() > 1)
      different.push_back(part);
    else if (part == &ReportSeries::collective)
      chart.title = texts[0];
    else
      join(chart.caption, texts[0], ", ");
  }
  if (chart.title.empty()) chart.title = "All collectives";
  for (const ReportSeries* series : lines) {
    std::string label;
    for (ChartPart part : different) join(label, series->*part, ", ");
    if (series->expected) label = label.empty() ? "expected" : "expected: " + label;
    chart.lines.push_back({label.empty() ? series->collective : label, series});
  }
  return chart;
}

std::string interval_words(const std::optional<Interval>& interval, double scale) {
  if (!interval) return "";
  return fmt::format("{} to {}", three_digits(interval->low * scale), three_digits(interval->high * scale));
}

}  // namespace

std::vector<ReportChart> group_charts(const std::vector<ReportSeries>& series) {
  Lines all;
  for (const ReportSeries& s : series) {
    if (!s.points.empty()) all.push_back(&s);
  }
  std::vector<Lines> groups;
  if (!all.empty()) divide(all, groups);
  std::vector<ReportChart> charts;
  for (const Lines& group : groups) charts.push_back(chart_of(group));
  return charts;
}

ReportTable values_of(const ReportChart& chart) {
  ReportTable table;
  table.title = "Values of " + chart.title;
  table.columns = {"line", "size", "busbw GB/s", "interval", "time µs", "interval", "wrong", "note"};
  for (const ReportChart::Line& line : chart.lines) {
    for (const ReportPoint& p : line.series->points) {
      table.rows.push_back(
          {{},
           {line.label, format_bytes(p.nbytes), p.busbw ? three_digits(*p.busbw) : "",
            interval_words(p.busbw_interval, 1), p.time_s ? three_digits(*p.time_s * 1e6) : "",
            interval_words(p.time_interval_s, 1e6), p.wrong ? fmt::format("{}", *p.wrong) : "", p.note}});
    }
  }
  return table;
}

}  // namespace busbar
