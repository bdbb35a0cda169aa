#include "driver/report/report_html.h"

#include "common/base/embedded_file.h"
#include "driver/report/html_sections.h"
#include "driver/report/html_table.h"
#include "driver/report/html_text.h"
#include "driver/report/json_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace busbar {
namespace {

/// Mail servers and ticket systems take it.
constexpr std::size_t kMostBytes = 1'900'000;

/// How much of everything is shown.
struct Room {
  std::size_t points = 2400;
  std::size_t rows = 400;        ///< of a table
  std::size_t ranks = 16 << 10;  ///< over all cells of the skew
  int squares = 512;             ///< a side of a heat map
  std::size_t tables = 256;      ///< and runs: of many files
  std::size_t lines = 400;       ///< of a fact of a run, and of the verdict
};

Room smaller(const Room& room) {
  const auto half = [](std::size_t size) { return std::max<std::size_t>(size / 2, 10); };
  return {room.points / 2,   half(room.rows), room.ranks / 2, std::max(room.squares / 2, 32),
          half(room.tables), half(room.lines)};
}

/// Ours begin with "report"; the other is the charting library, whatever its file was called.
std::string script_text() {
  std::map<std::string_view, std::string_view> ours;
  std::string text;
  for (const EmbeddedFile& file : embedded_report()) {
    if (file.name.starts_with("report"))
      ours[file.name] = file.text;
    else
      text += fmt::format("<script>{}</script>\n", file.text);
  }
  for (const auto& [name, script] : ours) {
    if (name.ends_with(".js")) text += fmt::format("<script>\n{}</script>\n", script);
  }
  return text;
}

std::string style_text() {
  const auto files = embedded_report();
  const auto found = std::find_if(files.begin(), files.end(), [](const auto& f) { return f.name == "report.css"; });
  return found == files.end() ? "" : std::string(found->text);
}

/// A part of the page with a heading, reached from the list at the top.
struct Part {
  std::string id;
  std::string title;
  std::string text;
};

void add_tables(std::vector<Part>& parts, const std::vector<ReportTable>& tables, const Room& room) {
  const std::size_t shown = std::min(tables.size(), room.tables);
  for (std::size_t i = 0; i < shown; ++i) {
    parts.push_back({fmt::format("table-{}", parts.size()), tables[i].title, html_table(tables[i], room.rows)});
  }
  if (shown == tables.size()) return;
  parts.push_back(
      {fmt::format("table-{}", parts.size()), "More tables",
       fmt::format("<p class=\"caption\">{} more tables would make this file too large; what they say is in "
                   "the result files.</p>\n",
                   tables.size() - shown)});
}

std::string runs_text(const std::vector<ReportRun>& runs, const Room& room) {
  const std::size_t shown = std::min(runs.size(), room.tables);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += run_section(runs[i], room.lines);
  if (shown == runs.size()) return text;
  return text +
         fmt::format("<p class=\"caption\">And {} more files, which say it themselves.</p>\n", runs.size() - shown);
}

/// As many charts as there is room for.
std::vector<ReportChart> charts_with_room(const ReportData& data, std::size_t points, std::string& left_out) {
  std::vector<ReportChart> charts = group_charts(data.series);
  std::size_t used = 0, kept = 0;
  for (const ReportChart& chart : charts) {
    for (const ReportChart::Line& line : chart.lines) used += line.series->points.size();
    if (kept > 0 && used > points) break;
    ++kept;
  }
  if (kept < charts.size()) {
    left_out = fmt::format(
        "<p class=\"caption\">{} more charts would make this file too large; their values are in the "
        "result files.</p>\n",
        charts.size() - kept);
  }
  charts.resize(kept);
  return charts;
}

std::vector<ReportSkew> skews_with_room(const ReportData& data, std::size_t ranks) {
  std::vector<ReportSkew> skews;
  std::size_t used = 0;
  for (const ReportSkew& skew : data.skews) {
    used += skew.ranks.size();
    if (skew.ranks.empty() || (!skews.empty() && used > ranks)) continue;
    skews.push_back(skew);
  }
  return skews;
}

std::vector<Part> parts_of(const ReportData& data, const Room& room, std::string& json) {
  std::vector<Part> parts;
  add_tables(parts, data.judged, room);
  std::string left_out;
  const auto charts = charts_with_room(data, room.points, left_out);
  if (!charts.empty()) {
    std::string text =
        "<p class=\"hint needs-script\">Point at a chart, or move the keyboard's focus to it and use the "
        "arrow keys, to read values; switch lines off and on above it. Shaded: the interval of each "
        "value. Both axes are logarithmic.</p>\n"
        "<p class=\"without-script\">The charts need JavaScript; the tables say the same.</p>\n";
    for (std::size_t i = 0; i < charts.size(); ++i) text += chart_section(charts[i], i, room.rows);
    parts.push_back({"charts", "Bandwidth and latency", text + left_out});
  }
  if (!data.matrices.empty()) {
    std::string text;
    for (std::size_t i = 0; i < data.matrices.size(); ++i) text += matrix_section(data.matrices[i], i, room.squares);
    parts.push_back({"pairs", "Pairs", text});
  }
  const auto skews = skews_with_room(data, room.ranks);
  if (!skews.empty()) parts.push_back({"ranks", "Ranks", skew_section(skews, 24)});
  add_tables(parts, data.details, room);
  if (!data.runs.empty()) parts.push_back({"runs", "What was run", runs_text(data.runs, room)});
  json = charts_json(charts, data.matrices, skews, room.squares);
  return parts;
}

std::string page(const ReportData& data, const Room& room) {
  std::string json;
  const auto parts = parts_of(data, room, json);
  const std::string title = html_text(data.title.empty() ? "busbar report" : data.title, 300);
  // The policy holds whatever a text may smuggle in: nothing is ever fetched.
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
      "style-src "
      "'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"busbar {}\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n",
      BUSBAR_VERSION, title, style_text());
  text += fmt::format("<a class=\"skip-link\" href=\"#content\">To the content</a>\n<header>\n<h1>{}</h1>\n{}", title,
                      verdict_section(data, room.lines));
  text += "<nav aria-label=\"Sections\"><ul>\n";
  for (const Part& part : parts)
    text += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", part.id, html_text(part.title));
  text += "</ul></nav>\n</header>\n<main id=\"content\">\n";
  for (const Part& part : parts) {
    text += fmt::format(
        "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}</section>\n", part.id,
        html_text(part.title), part.text);
  }
  text += fmt::format("</main>\n<footer>Made by busbar {}. This file is complete: it needs no network.</footer>\n",
                      BUSBAR_VERSION);
  text += fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", json);
  return text + script_text() + "</body>\n</html>\n";
}

}  // namespace

std::string report_html(const ReportData& data) {
  constexpr int kTries = 6;
  Room room;
  std::string text = page(data, room);
  for (int i = 0; i < kTries && text.size() > kMostBytes; ++i) {
    room = smaller(room);
    text = page(data, room);
  }
  return text;
}

}  // namespace busbar
