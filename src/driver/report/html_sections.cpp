#include "driver/report/html_sections.h"

#include "driver/report/html_table.h"
#include "driver/report/html_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace busbar {
namespace {

constexpr std::size_t kWorstPairs = 20;
constexpr std::size_t kWorstRanks = 12;
/// A fact with more lines is folded.
constexpr std::size_t kFoldedLines = 6;

std::string heading(const std::string& title, const std::string& caption) {
  std::string text = fmt::format("<h3>{}</h3>\n", html_text(title));
  if (!caption.empty()) text += fmt::format("<p class=\"caption\">{}</p>\n", html_text(caption));
  return text;
}

std::string figure(const char* kind, const char* caption, const std::string& spoken) {
  return fmt::format(
      "<figure data-kind=\"{}\"><figcaption>{}</figcaption><div class=\"plot\"><canvas tabindex=\"0\" "
      "role=\"application\" aria-roledescription=\"chart\" aria-label=\"{}\"></canvas></div></figure>\n",
      kind, caption, html_text(spoken));
}

constexpr const char* kReadout = "<p class=\"readout\" role=\"status\" aria-live=\"polite\"></p>\n";

/// Pairs, slowest first.
ReportTable slowest_pairs(const ReportMatrix& matrix) {
  ReportTable table;
  table.title = fmt::format("Slowest pairs of {}s", matrix.unit);
  table.columns = {matrix.unit, matrix.unit, "GB/s", "of median", "times", ""};
  auto cells = matrix.cells;
  std::stable_sort(cells.begin(), cells.end(), [](const auto& a, const auto& b) { return a.bandwidth < b.bandwidth; });
  const int units = static_cast<int>(matrix.units.size());
  for (const ReportMatrix::Cell& cell : cells) {
    if (table.rows.size() == kWorstPairs) break;
    if (std::min(cell.from, cell.to) < 0 || std::max(cell.from, cell.to) >= units) continue;
    const double share = matrix.median_bandwidth > 0 ? cell.bandwidth / matrix.median_bandwidth : 0;
    std::string note = cell.one_way ? "one way" : "";
    if (share < matrix.threshold) note += note.empty() ? "slow" : ", slow";
    table.rows.push_back({{},
                          {matrix.units[static_cast<std::size_t>(cell.from)],
                           matrix.units[static_cast<std::size_t>(cell.to)], three_digits(cell.bandwidth / 1e9),
                           fmt::format("{:.2f}", share), fmt::format("{}", cell.measurements), note}});
  }
  if (table.rows.size() < cells.size()) {
    table.caption = fmt::format("The {} slowest of {} measured pairs.", table.rows.size(), cells.size());
  }
  return table;
}

/// The latest ranks; where no clock sees lateness, those with the longest times.
ReportTable worst_ranks(const ReportSkew& skew) {
  ReportTable table;
  table.title = skew.title;
  table.columns = {"rank", "host", "own time", "late by", "last in"};
  std::vector<std::size_t> order(skew.ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto &x = skew.ranks[a], &y = skew.ranks[b];
    return x.late_s && y.late_s ? *x.late_s > *y.late_s : x.own_s > y.own_s;
  });
  for (std::size_t i : order) {
    if (table.rows.size() == kWorstRanks) break;
    const ReportSkew::Rank& r = skew.ranks[i];
    table.rows.push_back(
        {{},
         {fmt::format("{}{}", r.rank, r.rank == skew.straggler ? " (straggler)" : ""), r.host, time_words(r.own_s),
          r.late_s ? time_words(*r.late_s) : "", r.last_share ? fmt::format("{:.0f} %", 100 * *r.last_share) : ""}});
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

}  // namespace

std::string verdict_section(const ReportData& data, std::size_t most_lines) {
  std::string text = fmt::format("<section class=\"verdict {}\" aria-label=\"Verdict\">\n",
                                 data.outcome ? outcome_class(*data.outcome) : "none");
  if (data.outcome) text += fmt::format("<p class=\"word\">{}</p>\n", name(*data.outcome));
  if (!data.headline.empty()) text += fmt::format("<p class=\"headline\">{}</p>\n", html_text(data.headline));
  if (!data.verdict.empty()) {
    text += "<ul>\n";
    const std::size_t shown = std::min(most_lines, data.verdict.size());
    for (std::size_t i = 0; i < shown; ++i) text += fmt::format("<li>{}</li>\n", html_text(data.verdict[i]));
    if (shown < data.verdict.size()) text += fmt::format("<li>and {} more</li>\n", data.verdict.size() - shown);
    text += "</ul>\n";
  }
  return text + "</section>\n";
}

std::string chart_section(const ReportChart& chart, std::size_t index, std::size_t most_rows) {
  const std::string keys = " Arrow keys read the values out, one size after the other.";
  std::string text = fmt::format("<section data-chart=\"{}\">\n", index) + heading(chart.title, chart.caption);
  text += "<fieldset class=\"legend needs-script\" aria-label=\"Lines shown\"></fieldset>\n";
  text += "<div class=\"figures needs-script\">\n";
  text += figure("bandwidth", "Bus bandwidth [GB/s]", "Bus bandwidth over size of " + chart.title + "." + keys);
  text += figure("latency", "Time of one operation", "Time over size of " + chart.title + "." + keys);
  text += "</div>\n";
  text += fmt::format("<div class=\"needs-script\">{}</div>\n", kReadout);
  return text + "<details><summary>Values as a table</summary>\n" + html_table(values_of(chart), most_rows) +
         "</details>\n</section>\n";
}

std::string matrix_section(const ReportMatrix& matrix, std::size_t index, int most_squares) {
  const auto units = matrix.units.size();
  std::string caption = fmt::format("{} {}s, {} pairs measured; median {} GB/s.", units, matrix.unit,
                                    matrix.cells.size(), three_digits(matrix.median_bandwidth / 1e9));
  if (matrix.threshold > 0) caption += fmt::format(" Below {:.2f} of it a pair is slow.", matrix.threshold);
  if (const auto most = static_cast<std::size_t>(most_squares); units > most) {
    caption += fmt::format(" A square is {} {}s a side, and shows the slowest pair in it.", (units + most - 1) / most,
                           matrix.unit);
  }
  std::string text = fmt::format("<section data-matrix=\"{}\">\n", index) + heading(matrix.title, caption);
  text +=
      "<div class=\"heat\"><div class=\"needs-script\"><figure><canvas tabindex=\"0\" role=\"application\" "
      "aria-roledescription=\"heat map\" aria-label=\"Heat map of the pairs. Arrow keys go from pair to pair and read "
      "the values out.\"></canvas></figure>\n"
      "<p class=\"scale\"><span><canvas width=\"150\" height=\"12\" aria-hidden=\"true\"></canvas> 0 to 1.5 of the "
      "median</span> <span>\u00d7 slow</span> <span>empty: not measured</span>";
  if (!matrix.blamed.empty()) text += fmt::format(" <span><b>bold</b>: {} to blame</span>", html_text(matrix.unit));
  text += fmt::format("</p>\n{}</div>\n<div class=\"beside\">\n", kReadout);
  return text + html_table(slowest_pairs(matrix)) + "</div></div>\n</section>\n";
}

std::string skew_section(const std::vector<ReportSkew>& skews, std::size_t most_tables) {
  std::string text = "<section data-skew>\n<div class=\"needs-script\">\n";
  text += "<p><label>Cell <select></select></label></p>\n";
  text += figure("skew",
                 "Median per rank: bars and squares are lateness after the first to arrive, round marks the "
                 "rank's own time in the operation",
                 "Lateness and own time of every rank. Arrow keys go from rank to rank and read the values out.");
  text += kReadout;
  text += "</div>\n";
  text += html_table(worst_ranks(skews[0]));
  if (skews.size() > 1) {
    const std::size_t shown = std::min(skews.size(), most_tables);
    text += fmt::format("<details><summary>The other {} cells as tables</summary>\n", shown - 1);
    for (std::size_t i = 1; i < shown; ++i) {
      text += fmt::format("<h4>{}</h4>\n{}", html_text(skews[i].title), html_table(worst_ranks(skews[i])));
    }
    text += "</details>\n";
  }
  return text + "</section>\n";
}

std::string run_section(const ReportRun& run, std::size_t most_lines) {
  std::string text = heading(run.title, "") + "<dl>\n";
  for (const ReportRun::Fact& fact : run.facts) {
    if (fact.lines.empty()) continue;
    text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_text(fact.name), fact_lines(fact, most_lines));
  }
  return text + "</dl>\n";
}

}  // namespace busbar
