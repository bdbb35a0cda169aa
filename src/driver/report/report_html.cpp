#include "driver/report/report_html.h"

#include "common/base/embedded_file.h"
#include "common/base/text.h"
#include "common/output/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace busbar {
namespace {

/// Longer cells may be broken into lines.
constexpr std::size_t kShortCell = 22;

bool like_a_number(std::string_view text) {
  constexpr std::size_t kLongest = 14;  // "-12.3 GB/s"; not "301 GB/s [299, 303]"
  if (text.size() > kLongest) return false;
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text[0] >= '0' && text[0] <= '9';
}

/// "number", "short" or "text", per column: the same for all its cells; "empty" if none has a text.
std::vector<std::string_view> column_classes(const ReportTable& table) {
  std::vector<std::string_view> classes;
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    bool number = false, other = false, brief = true;
    for (const ReportTable::Row& row : table.rows) {
      if (column >= row.cells.size() || row.cells[column].empty()) continue;
      const std::string& cell = row.cells[column];
      (like_a_number(cell) ? number : other) = true;
      brief = brief && cell.size() <= kShortCell;
    }
    classes.push_back(!number && !other ? "empty" : !brief ? "text" : number && !other ? "number" : "short");
  }
  return classes;
}

std::string open_tag(std::string_view tag, std::string_view style, std::string_view more = "") {
  return style.empty() ? fmt::format("<{}{}>", tag, more) : fmt::format("<{} class=\"{}\"{}>", tag, style, more);
}

/// Mail servers and ticket systems accept it.
constexpr std::size_t kMostPageBytes = 1'900'000;

/// How much of everything is shown: half with each try to make the page small enough.
struct Room {
  int halved = 0;
  std::size_t points = 2400U >> halved;
  std::size_t rows = std::max(400U >> halved, 10U);    ///< of a table
  std::size_t ranks = (16U << 10) >> halved;           ///< over all cells of the skew
  int squares = std::max(512 >> halved, 32);           ///< a side of a heat map
  std::size_t tables = std::max(256U >> halved, 10U);  ///< and runs: of many files
  std::size_t lines = std::max(400U >> halved, 10U);   ///< of a fact of a run, and of the verdict
};

/// The template of that name in html/: {name} in it stands for `fmt::arg("name", text)`, which is HTML already.
template <typename... Args>
std::string fill(std::string_view name, const Args&... args) {
  return fmt::vformat(embedded_text(embedded_report(), name), fmt::make_format_args(args...));
}

// The parts of the page. Everything that they say is there without the script too.

constexpr std::size_t kWorstPairs = 20;
constexpr std::size_t kWorstRanks = 12;
/// A fact with more lines is folded.
constexpr std::size_t kFoldedLines = 6;

/// Pairs, slowest first.
ReportTable slowest_pairs(const ReportMatrix& matrix) {
  ReportTable table{.title = fmt::format("Slowest pairs of {}s", matrix.unit),
                    .columns = {matrix.unit, matrix.unit, "GB/s", "of median", "times", ""}};
  auto cells = matrix.cells;
  std::stable_sort(cells.begin(), cells.end(), [](const auto& a, const auto& b) { return a.bandwidth < b.bandwidth; });
  const int units = static_cast<int>(matrix.units.size());
  for (const PairCell& cell : cells) {
    if (table.rows.size() == kWorstPairs) break;
    if (std::min(cell.a, cell.b) < 0 || std::max(cell.a, cell.b) >= units) continue;
    const double share = matrix.median_bandwidth > 0 ? cell.bandwidth / matrix.median_bandwidth : 0;
    std::string note = cell.one_way ? "one way" : "";
    if (share < matrix.threshold) note += note.empty() ? "slow" : ", slow";
    table.add({matrix.units[cell.a], matrix.units[cell.b], three_digits(cell.bandwidth / 1e9),
               fmt::format("{:.2f}", share), fmt::format("{}", cell.measurements), note});
  }
  if (table.rows.size() < cells.size()) {
    table.caption = fmt::format("The {} slowest of {} measured pairs.", table.rows.size(), cells.size());
  }
  return table;
}

/// The latest ranks; if no clock sees lateness, those with the longest times.
ReportTable worst_ranks(const ReportSkew& skew) {
  ReportTable table{.title = skew.title, .columns = {"rank", "host", "own time", "late by", "last in"}};
  std::vector<std::size_t> order(skew.ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto &x = skew.ranks[a], &y = skew.ranks[b];
    return x.late_median_s && y.late_median_s ? *x.late_median_s > *y.late_median_s : x.own_median_s > y.own_median_s;
  });
  for (std::size_t i : order) {
    if (table.rows.size() == kWorstRanks) break;
    const RankTime& r = skew.ranks[i];
    table.add({fmt::format("{}{}", r.rank, r.rank == skew.straggler ? " (straggler)" : ""), r.host,
               time_words(r.own_median_s), r.late_median_s ? time_words(*r.late_median_s) : "",
               r.last_share ? fmt::format("{:.0f} %", 100 * *r.last_share) : ""});
  }
  table.caption = fmt::format("{}: the {} worst of {} ranks.", skew.title, table.rows.size(), order.size());
  return table;
}

std::string fact_lines(const ReportRun::Fact& fact, std::size_t most) {
  if (fact.lines.size() == 1) return html_text(fact.lines[0]);
  std::string list = "<pre>";
  for (std::size_t i = 0; i < std::min(fact.lines.size(), most); ++i) list += html_text(fact.lines[i]) + "\n";
  if (fact.lines.size() > most) list += fmt::format("and {} more", fact.lines.size() - most);
  list += "</pre>";
  if (fact.lines.size() <= kFoldedLines) return list;
  return fmt::format("<details class=\"print\"><summary>{} lines</summary>{}</details>", fact.lines.size(), list);
}

/// When, where and with which library, as far as the runs say one thing, and how many other things.
std::string about_line(const ReportData& data) {
  std::string text;
  for (const std::string_view name : {"start", "first", "hosts", "library", "busbar"}) {
    std::set<std::string> different;
    for (const ReportRun& run : data.runs) {
      for (const ReportRun::Fact& fact : run.facts) {
        if (fact.name == name) different.insert(joined_words(fact.lines, "; "));
      }
    }
    if (different.empty()) continue;
    text +=
        fmt::format("{}{}{}{}", text.empty() ? "" : " \u00b7 ", name == "busbar" ? "busbar " : "", *different.begin(),
                    different.size() == 1 ? "" : fmt::format(" and {} more", different.size() - 1));
  }
  return text.empty() ? "" : fmt::format("<p class=\"about\">{}</p>\n", html_text(text, 300));
}

/// Outcome, headline, lines.
std::string verdict_section(const ReportData& data, std::size_t most_lines) {
  std::string text = fmt::format("<section class=\"verdict {}\" aria-label=\"Verdict\">\n",
                                 data.outcome ? lower_case(name(*data.outcome)) : "none");
  if (data.outcome) text += fmt::format("<p class=\"word\">{}</p>\n", name(*data.outcome));
  if (!data.headline.empty()) text += fmt::format("<p class=\"headline\">{}</p>\n", html_text(data.headline));
  for (const std::string& next : data.next) {
    text += fmt::format("<p class=\"next\"><b>Next:</b> {}</p>\n", html_text(next));
  }
  if (!data.verdict.empty()) {
    text += "<ul>\n";
    const std::size_t shown = std::min(most_lines, data.verdict.size());
    for (std::size_t i = 0; i < shown; ++i) text += fmt::format("<li>{}</li>\n", html_text(data.verdict[i]));
    if (shown < data.verdict.size()) text += fmt::format("<li>and {} more</li>\n", data.verdict.size() - shown);
    text += "</ul>\n";
  }
  return text + "</section>\n";
}

/// A heat map for the script to fill, and its slowest pairs as a table.
std::string matrix_section(const ReportMatrix& matrix, std::size_t index, int most_squares) {
  const auto units = matrix.units.size();
  std::string caption = fmt::format("{} {}s, {} pairs measured; median {} GB/s.", units, matrix.unit,
                                    matrix.cells.size(), three_digits(matrix.median_bandwidth / 1e9));
  if (matrix.threshold > 0) caption += fmt::format(" Below {:.2f} of it a pair is slow.", matrix.threshold);
  if (const auto most = static_cast<std::size_t>(most_squares); units > most) {
    caption += fmt::format(" A square is {} {}s a side, and shows the slowest pair in it.", (units + most - 1) / most,
                           matrix.unit);
  }
  const std::string blamed =
      matrix.blamed.empty() ? "" : fmt::format(" <span><b>bold</b>: {} to blame</span>", html_text(matrix.unit));
  return fill("matrix.html", fmt::arg("index", index), fmt::arg("title", html_text(matrix.title)),
              fmt::arg("caption", html_text(caption)), fmt::arg("blamed", blamed),
              fmt::arg("slowest", html_table(slowest_pairs(matrix))));
}

/// Ranks for the script to draw, and of each cell the latest and slowest as a table; there is at least one cell.
std::string skew_section(const std::vector<ReportSkew>& skews, std::size_t most_tables) {
  std::string others;
  const std::size_t shown = std::min(skews.size(), most_tables);
  for (std::size_t i = 1; i < shown; ++i) {
    others += fmt::format("<h4>{}</h4>\n{}", html_text(skews[i].title), html_table(worst_ranks(skews[i])));
  }
  if (!others.empty()) {
    others = fmt::format("<details><summary>The other {} cells as tables</summary>\n{}</details>\n", shown - 1, others);
  }
  return fill("skew.html", fmt::arg("worst", html_table(worst_ranks(skews[0]))), fmt::arg("others", others));
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
  for (std::size_t i = 0; i < shown; ++i) {
    text += fmt::format("<h3>{}</h3>\n<dl>\n", html_text(runs[i].title));
    for (const ReportRun::Fact& fact : runs[i].facts) {
      text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_text(fact.name), fact_lines(fact, room.lines));
    }
    text += "</dl>\n";
  }
  if (shown == runs.size()) return text;
  return text + fmt::format("<p class=\"caption\">And {} more files are not listed.</p>\n", runs.size() - shown);
}

/// All that there is to draw, and its values: the same in all tries to make the page small enough.
struct Charts {
  std::vector<ReportChart> charts;
  std::vector<ReportTable> values;

  explicit Charts(const ReportData& data) : charts(group_charts(data.series)) {
    for (const ReportChart& chart : charts) values.push_back(values_of(chart));
  }
};

/// As many charts as there is room for.
std::vector<ReportChart> charts_with_room(std::vector<ReportChart> charts, std::size_t points, std::string& left_out) {
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

std::vector<Part> parts_of(const ReportData& data, const Charts& all, const Room& room, std::string& json) {
  std::vector<Part> parts;
  if (!data.lanes.empty()) parts.push_back({"lanes-0", "One step", html_lanes(data.lanes)});
  add_tables(parts, data.judged, room);
  std::string left_out;
  const auto charts = charts_with_room(all.charts, room.points, left_out);
  if (!charts.empty()) {
    std::string text =
        "<p class=\"hint needs-script\">Point at a chart, or move the keyboard's focus to it and use the "
        "arrow keys, to read values; switch lines off and on above it. Shaded: the interval of each "
        "value; lighter: what the epochs span; dotted: the 99th percentile. Both axes are logarithmic.</p>\n"
        "<p class=\"without-script\">The charts need JavaScript; the tables say the same.</p>\n";
    for (std::size_t i = 0; i < charts.size(); ++i) {  // for the script to fill, and the values as a table
      std::string caption = html_text(charts[i].caption);
      if (!caption.empty()) caption = fmt::format("<p class=\"caption\">{}</p>\n", caption);
      text += fill("chart.html", fmt::arg("index", i), fmt::arg("title", html_text(charts[i].title)),
                   fmt::arg("caption", caption), fmt::arg("values", html_table(all.values[i], room.rows)));
    }
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

std::string page(const ReportData& data, const Charts& charts, const Room& room) {
  std::string json;
  const auto parts = parts_of(data, charts, room, json);
  std::string links, sections;
  for (const Part& part : parts) {
    links += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", part.id, html_text(part.title));
    sections += fmt::format(
        "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}</section>\n", part.id,
        html_text(part.title), part.text);
  }
  std::string scripts;  // in the order of their names
  for (const EmbeddedFile& file : embedded_report()) {
    if (file.name.ends_with(".js")) scripts += fmt::format("<script>\n{}</script>\n", file.text);
  }
  const std::string title = html_text(data.title.empty() ? "busbar report" : data.title, 300);
  // The page's policy holds whatever a text contains: nothing is ever fetched.
  return fill("page.html", fmt::arg("version", BUSBAR_VERSION), fmt::arg("title", title),
              fmt::arg("style", embedded_text(embedded_report(), "report.css")),
              fmt::arg("verdict", about_line(data) + verdict_section(data, room.lines)), fmt::arg("links", links),
              fmt::arg("parts", sections), fmt::arg("data", json), fmt::arg("scripts", scripts));
}

}  // namespace

std::string html_text(std::string_view text, std::size_t most) {
  static const std::map<char, std::string_view> kWritten{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string result;
  result.reserve(text.size() + text.size() / 8);
  for (std::size_t i = 0; i < text.size();) {
    if (i >= most) return result + "\u2026";
    const Character c = first_character(text.substr(i));
    if (c.code == kNoCharacter || (is_misleading(c.code) && c.code != '\n' && c.code != '\t')) {
      result += "\uFFFD";
    } else {
      result += with_escapes(text.substr(i, c.nbytes), kWritten);
    }
    i += c.nbytes;
  }
  return result;
}

std::string three_digits(double value) {
  if (!std::isfinite(value)) return "?";
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size < 1e-3 || size >= 1e9) return fmt::format("{:.2e}", value);
  const int before = static_cast<int>(std::floor(std::log10(size)));
  return fmt::format("{:.{}f}", value, before >= 2 ? 0 : 2 - before);
}

std::string time_words(double time_s) {
  if (time_s >= 0.9995) return three_digits(time_s) + " s";
  if (time_s >= 0.9995e-3) return three_digits(time_s * 1e3) + " ms";
  return three_digits(time_s * 1e6) + " µs";
}

std::string html_table(const ReportTable& table, std::size_t most) {
  const std::size_t shown = std::min(most, table.rows.size());
  const bool judged = std::ranges::any_of(table.rows, [](const auto& row) { return row.outcome.has_value(); });
  const auto classes = column_classes(table);
  std::string text;
  if (!table.caption.empty()) text += fmt::format("<p class=\"caption\">{}</p>\n", html_text(table.caption));
  if (table.rows.empty()) return text;
  const bool has_text = std::find(classes.begin(), classes.end(), "text") != classes.end();
  text += fmt::format("<div class=\"scroll{}{}\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>\n<thead><tr>",
                      shown > (has_text ? 100U : 40U) ? " long" : "", has_text ? " stacked" : "",
                      html_text(table.title, 200));
  if (judged) text += "<th scope=\"col\">outcome</th>";
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (classes[i] == "empty") continue;
    text += open_tag("th", classes[i], " scope=\"col\"") + html_text(table.columns[i]) + "</th>";
  }
  text += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < shown; ++r) {
    const ReportTable::Row& row = table.rows[r];
    text += "<tr>";
    const std::string word = row.outcome ? name(*row.outcome) : "";
    if (judged && word.empty()) text += "<td></td>";
    if (!word.empty()) text += fmt::format("<td><span class=\"outcome {}\">{}</span></td>", lower_case(word), word);
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (classes[i] == "empty") continue;
      const std::string label = has_text ? fmt::format(" data-label=\"{}\"", html_text(table.columns[i])) : "";
      const std::string cell = i < row.cells.size() ? html_text(row.cells[i]) : "";
      text += i == table.bars
                  ? fmt::format("<td class=\"bar\"{0}><span style=\"--share: {1}\"></span>{1}</td>", label, cell)
                  : open_tag("td", classes[i], label) + cell + "</td>";
    }
    text += "</tr>\n";
  }
  text += "</tbody></table></div>\n";
  if (shown < table.rows.size()) {
    text +=
        fmt::format("<p class=\"caption\">{} more rows are only in the result file.</p>\n", table.rows.size() - shown);
  }
  return text;
}

std::string report_html(const ReportData& data) {
  constexpr int kTries = 7;
  const Charts charts(data);
  std::string text;
  for (int i = 0; i < kTries && (i == 0 || text.size() > kMostPageBytes); ++i) text = page(data, charts, {i});
  return text;
}

}  // namespace busbar
