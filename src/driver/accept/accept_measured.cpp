#include "driver/accept/accept_measured.h"

#include "common/base/units.h"
#include "common/output/format.h"
#include "common/output/wrapped.h"
#include "common/record/criterion_words.h"
#include "common/statistics/interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace busbar {
namespace {

constexpr std::size_t kMostRows = 48;  // two screens

/// Measurements of the same, on several groups of ranks or again later.
using Alike = std::vector<const MeasuredCell*>;

std::vector<Alike> rows_of(const AcceptResult& result) {
  std::vector<Alike> rows;
  std::map<std::tuple<Stage, std::string, std::string, std::string, std::uint64_t, bool>, std::size_t> at;
  for (const MeasuredCell& c : result.cells) {
    const auto [found, is_new] = at.try_emplace({c.stage, c.cell, c.dtype, c.op, c.nbytes, c.in_place}, rows.size());
    if (is_new) rows.emplace_back();
    rows[found->second].push_back(&c);
  }
  return rows;
}

double middle(const Alike& alike, double MeasuredCell::*value) {
  std::vector<double> values;
  for (const MeasuredCell* c : alike) values.push_back(c->*value);
  return median(values);
}

/// "8 hosts, slowest node3: 320 us", "5 times".
std::string of_several(const Alike& alike) {
  std::map<std::string, Alike> scopes;
  for (const MeasuredCell* c : alike) scopes[c->scope].push_back(c);
  std::string text;
  if (scopes.size() > 1) {
    const auto slowest = std::max_element(scopes.begin(), scopes.end(), [](const auto& a, const auto& b) {
      return middle(a.second, &MeasuredCell::median_s) < middle(b.second, &MeasuredCell::median_s);
    });
    text = fmt::format("{} hosts, slowest {}: {} us", scopes.size(), slowest->first,
                       fit_number(1e6 * middle(slowest->second, &MeasuredCell::median_s), 9));
  }
  std::set<int> repetitions;
  for (const MeasuredCell* c : alike) repetitions.insert(c->repetition);
  if (repetitions.size() > 1) text += fmt::format("{}{} times", text.empty() ? "" : ", ", repetitions.size());
  return text;
}

std::string wrong_text(const Alike& alike) {
  std::int64_t wrong = 0;
  for (const MeasuredCell* c : alike) {
    if (!c->wrong) return "N/A";
    wrong += *c->wrong;
  }
  return std::to_string(wrong);
}

/// Widths of the columns that depend on what was measured.
struct Widths {
  std::size_t cell = 4;
  std::size_t type = 4;
};

std::string type_of(const MeasuredCell& c) { return c.op == "none" ? c.dtype : c.dtype + ' ' + c.op; }

std::string row_text(const Alike& alike, const Widths& widths) {
  const MeasuredCell& c = *alike.front();
  const bool is_alone = alike.size() == 1 && c.interval_s;
  const std::string row = fmt::format("  {:<8} {:<{}} {:<{}} {:>8} {:<5} {:>9} {:>5} {:>8} {:>6}", name(c.stage),
                                      c.cell, widths.cell, type_of(c), widths.type, format_bytes(c.nbytes),
                                      place(c.in_place), fit_number(1e6 * middle(alike, &MeasuredCell::median_s), 9),
                                      is_alone ? fmt::format("{:.1f}", 100 * c.relative_half_width) : "",
                                      fit_number(middle(alike, &MeasuredCell::busbw), 8), wrong_text(alike));
  const std::string more = of_several(alike);
  if (more.empty()) return row + '\n';
  if (row.size() + 2 + more.size() <= kColumns) return fmt::format("{}  {}\n", row, more);
  return row + '\n' + wrapped(more, 11, 11);
}

}  // namespace

std::string measured_text(const AcceptResult& result) {
  const std::vector<Alike> rows = rows_of(result);
  if (rows.empty()) return {};
  Widths widths;
  for (const Alike& alike : rows) {
    widths.cell = std::max(widths.cell, std::min<std::size_t>(alike.front()->cell.size(), 24));
    widths.type = std::max(widths.type, type_of(*alike.front()).size());
  }
  std::string text =
      fmt::format("\nmeasured\n  {:<8} {:<{}} {:<{}} {:>8} {:<5} {:>9} {:>5} {:>8} {:>6}\n", "stage", "cell",
                  widths.cell, "type", widths.type, "size", "place", "time[us]", "+-%", "busbw", "#wrong");
  for (std::size_t i = 0; i < std::min(rows.size(), kMostRows); ++i) text += row_text(rows[i], widths);
  if (rows.size() > kMostRows) {
    text += fmt::format("  ... and {} more; the JSON file (-J) has all\n", rows.size() - kMostRows);
  }
  return text;
}

}  // namespace busbar
