#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/format.h"
#include "driver/formats/result_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <map>

namespace busbar {
namespace {

constexpr std::size_t kTableRows = 60;

std::string joined(const std::vector<std::string>& words, const char* separator) {
  return joined_words(mapped(words, markdown_field), separator);
}

/// A table of at most kTableRows lines.
class Table {
 public:
  Table(std::string_view title, const std::vector<std::string>& columns) {
    text_ = fmt::format("\n### {}\n\n| {} |\n|", title, fmt::join(columns, " | "));
    for (std::size_t i = 0; i < columns.size(); ++i) text_ += " --- |";
    text_ += '\n';
  }

  void add(const std::vector<std::string>& fields) {
    if (++lines_ <= kTableRows) text_ += fmt::format("| {} |\n", fmt::join(fields, " | "));
  }

  /// Empty if it has no lines.
  std::string text() const {
    if (lines_ == 0) return "";
    return lines_ <= kTableRows ? text_ : fmt::format("{}\n{} more lines were left out.\n", text_, lines_ - kTableRows);
  }

 private:
  std::string text_;
  std::size_t lines_ = 0;
};

std::string where(Stage stage, const std::string& scope) {
  return scope.empty() || scope == "all" ? name(stage) : fmt::format("{}, {}", name(stage), markdown_field(scope));
}

std::string head(const AcceptResult& result, std::string_view tool) {
  const std::string& title = result.plan.title_or_file();
  const bool ended = !result.end_time.empty();
  std::string text = fmt::format("## busbar {}{}{}: {}\n\n{}", tool, title.empty() ? "" : " ", markdown_field(title),
                                 ended ? name(result.outcome) : "not ended", outcome_counts(result.criteria));
  text += ended ? ".\n" : "; the run continues, or ended before its verdict.\n";
  const std::vector<std::string> blamed = blamed_hosts(result);
  if (!blamed.empty()) text += fmt::format("\n**To blame: {}**\n", joined(blamed, ", "));
  if (!result.excluded_hosts.empty()) {
    text += fmt::format("\nLeft out after a failure: {}\n", joined(result.excluded_hosts, ", "));
  }
  return text;
}

std::string run_table(const AcceptResult& result) {
  Table table("What ran", {"", ""});
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) table.add({what, value});
  };
  std::size_t nranks = 0;
  for (const AcceptResult::Host& host : result.hosts) nranks += host.ranks.size();
  const double time_s = run_time_s(result);
  add("start", markdown_field(result.start_time) + (time_s > 0 ? ", for " + format_duration(time_s) : ""));
  add("busbar", markdown_field(result.version));
  add("backend", markdown_field(result.backend));
  add("library", markdown_field(result.library));
  add("platform", markdown_field(result.platform));
  if (!result.hosts.empty()) add("size", fmt::format("{} ranks on {} hosts", nranks, result.hosts.size()));
  add("command", joined(result.command, " "));
  return table.text();
}

std::string failures_table(const AcceptResult& result) {
  Table table("Launches and stages that did not end well", {"stage", "cell", "verdict", "what was said", "hosts"});
  for (const StageFailure& f : result.failures) {
    table.add({name(f.stage), markdown_field(f.cell), markdown_field(f.verdict), markdown_field(f.text),
               joined(f.hosts, ", ")});
  }
  return table.text();
}

std::string criteria_table(const AcceptResult& result) {
  Table table("What did not pass", {"outcome", "where", "criterion", "found", "wanted", "reason", "to blame"});
  for (const CriterionResult& c : worst_first(result.criteria)) {
    if (c.outcome == Outcome::pass) continue;
    const std::string wanted = c.source.empty()
                                   ? markdown_field(c.wanted)
                                   : fmt::format("{} ({})", markdown_field(c.wanted), markdown_field(c.source));
    table.add({name(c.outcome), where(c.stage, c.scope), markdown_field(criterion_name(c)), markdown_field(c.found),
               wanted, markdown_field(c.reason), joined(c.hosts, ", ")});
  }
  return table.text();
}

std::string cells_table(const AcceptResult& result) {
  Table table("What was measured",
              {"where", "cell", "type", "size", "place", "median us", "+-%", "busbw GB/s", "#wrong", "algorithm"});
  for (const Cell& c : result.cells) {
    table.add({where(*c.stage, c.scope), markdown_field(c.cell),
               markdown_field(c.op == "none" ? c.dtype : c.dtype + ' ' + c.op), format_bytes(c.nbytes),
               place(c.in_place), fit_number(1e6 * c.median_s, 9),
               c.interval_s ? fmt::format("{:.1f}", 100 * c.relative_half_width) : "", fit_busbw(c.busbw, 9),
               c.wrong ? std::to_string(*c.wrong) : "N/A", markdown_field(c.algorithm)});
  }
  return table.text();
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::string markdown_field(std::string_view raw) {
  // '@': else a server notifies somebody of that name.
  static const std::map<char, std::string_view> kWritten{{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'@', "&#64;"}};
  const std::string text = valid_utf8(raw);
  std::string field;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) < 0x20) {
      field += ' ';
    } else if (const auto written = kWritten.find(c); written != kWritten.end()) {
      field += written->second;
    } else {
      // Within a word '_' is not markup, and all\_reduce cannot be copied.
      const bool within = c == '_' && i > 0 && i + 1 < text.size() && is_word(text[i - 1]) && is_word(text[i + 1]);
      if (std::string_view("\\`*_[]|~#!$").find(c) != std::string_view::npos && !within) field += '\\';
      field += c;
    }
  }
  return field;
}

std::string markdown_text(const AcceptResult& result, std::string_view tool) {
  return head(result, tool) + failures_table(result) + criteria_table(result) + cells_table(result) + run_table(result);
}

}  // namespace busbar
