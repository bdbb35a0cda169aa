#include "common/base/text.h"
#include "common/output/format.h"
#include "driver/report/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
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

/// "number", "short" or "text", per column: the same for all its cells; "empty" where none has a text.
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

const char* outcome_class(Outcome outcome) {
  constexpr const char* kClasses[] = {"skip", "pass", "warn", "inconclusive", "fail"};
  return kClasses[static_cast<int>(outcome)];
}

std::string html_outcome(Outcome outcome) {
  return fmt::format("<span class=\"outcome {}\">{}</span>", outcome_class(outcome), name(outcome));
}

std::string html_table(const ReportTable& table, std::size_t most) {
  const std::size_t shown = std::min(most, table.rows.size());
  const bool judged =
      std::any_of(table.rows.begin(), table.rows.end(), [](const ReportTable::Row& row) { return row.outcome; });
  const auto classes = column_classes(table);
  std::string text;
  if (!table.caption.empty()) text += fmt::format("<p class=\"caption\">{}</p>\n", html_text(table.caption));
  if (table.rows.empty()) return text;
  const bool has_text = std::find(classes.begin(), classes.end(), "text") != classes.end();
  text += fmt::format("<div class=\"scroll{}{}\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>\n<thead><tr>",
                      shown > 16 ? " long" : "", has_text ? " stacked" : "", html_text(table.title, 200));
  if (judged) text += "<th scope=\"col\">outcome</th>";
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (classes[i] == "empty") continue;
    text += open_tag("th", classes[i], " scope=\"col\"") + html_text(table.columns[i]) + "</th>";
  }
  text += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < shown; ++r) {
    const ReportTable::Row& row = table.rows[r];
    text += "<tr>";
    if (judged) text += "<td>" + (row.outcome ? html_outcome(*row.outcome) : "") + "</td>";
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (classes[i] == "empty") continue;
      const std::string label = has_text ? fmt::format(" data-label=\"{}\"", html_text(table.columns[i])) : "";
      text += open_tag("td", classes[i], label) + (i < row.cells.size() ? html_text(row.cells[i]) : "") + "</td>";
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

}  // namespace busbar
