#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/format.h"
#include "common/record/json_fields.h"
#include "common/statistics/interval.h"
#include "driver/report/report_html.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

namespace busbar {
namespace {

/// As html_text: the page shows the texts of these data, too.
void tame(Json& json) {
  if (json.is_string()) json = without_controls(json.get_ref<const std::string&>());
  if (json.is_structured()) std::ranges::for_each(json, tame);
}

/// More are hard to tell apart.
constexpr std::size_t kMostInChart = 8;

using Lines = std::vector<const ReportSeries*>;
using ChartPart = std::string ReportSeries::*;

/// In the order in which charts are divided; `source` never divides one: runs are compared within a chart.
constexpr std::array<ChartPart, 5> kDividers{&ReportSeries::collective, &ReportSeries::type, &ReportSeries::scope,
                                             &ReportSeries::placement, &ReportSeries::variant};
/// In the order in which they appear in a label.
constexpr std::array<ChartPart, 6> kLabel{&ReportSeries::source,    &ReportSeries::collective, &ReportSeries::type,
                                          &ReportSeries::placement, &ReportSeries::variant,    &ReportSeries::scope};

/// The different texts of a part, as they first appear.
std::vector<std::string> texts_of(const Lines& lines, ChartPart part) {
  const auto groups = grouped(lines, [part](const ReportSeries* line) { return line->*part; });
  return mapped(groups, [](const auto& group) { return group.first; });
}

void divide(const Lines& lines, std::vector<Lines>& charts) {
  const auto measured = std::count_if(lines.begin(), lines.end(), [](const ReportSeries* s) { return !s->expected; });
  const bool several_files = texts_of(lines, &ReportSeries::source).size() > 1;
  for (ChartPart part : kDividers) {
    const bool apart = several_files && part == &ReportSeries::collective;
    if (static_cast<std::size_t>(measured) <= kMostInChart && !apart) continue;
    const auto texts = texts_of(lines, part);
    if (texts.size() < 2) continue;
    std::map<std::string_view, Lines> with_text;
    for (const ReportSeries* line : lines) with_text[line->*part].push_back(line);
    for (const std::string& text : texts) divide(with_text[text], charts);
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

bool is_over_days(const ReportChart& chart) { return chart.lines.front().series->over_days; }

std::string digits(const std::optional<double>& value, double scale) {
  return value ? three_digits(*value * scale) : "";
}

std::string interval_words(const std::optional<Interval>& interval, double scale) {
  if (!interval) return "";
  return fmt::format("{} to {}", three_digits(interval->low * scale), three_digits(interval->high * scale));
}

/// To six significant digits: the rest would only be bytes.
Json rounded(double value) {
  return std::isfinite(value) ? Json(number_of<double>(fmt::format("{:.6g}", value)).value()) : Json(nullptr);
}

Json rounded(const std::optional<double>& value, double scale = 1) {
  return value ? rounded(*value * scale) : Json(nullptr);
}

Json low(const std::optional<Interval>& interval, double scale) {
  return interval ? rounded(interval->low * scale) : Json(nullptr);
}

Json high(const std::optional<Interval>& interval, double scale) {
  return interval ? rounded(interval->high * scale) : Json(nullptr);
}

Json point_json(const ReportPoint& p) {
  return Json::array({p.nbytes, rounded(p.busbw), low(p.busbw_interval, 1), high(p.busbw_interval, 1),
                      rounded(p.time_s, 1e6), low(p.time_interval_s, 1e6), high(p.time_interval_s, 1e6),
                      p.wrong ? Json(*p.wrong) : Json(nullptr), p.note, rounded(p.ratio), low(p.ratio_interval, 1),
                      high(p.ratio_interval, 1), rounded(p.p99_s, 1e6), low(p.epochs_s, 1e6), high(p.epochs_s, 1e6)});
}

/// Two digits to the base of 64 per square: its share of the median in thousandths, 0 if nothing was measured. A
/// list of numbers would take three times the room at 512 units.
std::string grid_of(const ReportMatrix& matrix, int side, int per_square) {
  constexpr int kMost = 4095;
  std::vector<int> squares(static_cast<std::size_t>(side) * static_cast<std::size_t>(side), 0);
  const auto set = [&](int from, int to, int value) {
    int& square = squares[static_cast<std::size_t>(from / per_square) * static_cast<std::size_t>(side) +
                          static_cast<std::size_t>(to / per_square)];
    square = square == 0 ? value : std::min(square, value);
  };
  const int units = static_cast<int>(matrix.units.size());
  for (const PairCell& cell : matrix.cells) {
    if (std::min(cell.a, cell.b) < 0 || std::max(cell.a, cell.b) >= units) continue;
    const double share = matrix.median_bandwidth > 0 ? cell.bandwidth / matrix.median_bandwidth : 0;
    const int value = static_cast<int>(std::lround(std::clamp(share * 1000, 1.0, static_cast<double>(kMost))));
    set(cell.a, cell.b, value);
    if (!cell.one_way) set(cell.b, cell.a, value);
  }
  constexpr char kDigits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  std::string text;
  text.reserve(2 * squares.size());
  for (int value : squares) {
    text += kDigits[value / 64];
    text += kDigits[value % 64];
  }
  return text;
}

Json matrix_json(const ReportMatrix& matrix, int most_squares) {
  const int units = static_cast<int>(matrix.units.size());
  const int per_square = std::max(1, (units + most_squares - 1) / most_squares);
  const int side = (units + per_square - 1) / per_square;
  Json names = Json::array();
  for (int i = 0; i < side; ++i) {
    const auto first = static_cast<std::size_t>(i) * static_cast<std::size_t>(per_square);
    const std::size_t last = std::min(first + static_cast<std::size_t>(per_square), matrix.units.size()) - 1;
    names.push_back(first == last ? matrix.units[first]
                                  : fmt::format("{} to {}", matrix.units[first], matrix.units[last]));
  }
  const bool one_way = std::ranges::any_of(matrix.cells, &PairCell::one_way);
  return {{"names", std::move(names)},
          {"median", rounded(matrix.median_bandwidth / 1e9)},
          {"threshold", rounded(matrix.threshold)},
          {"blamed", json_list(matrix.blamed, [&](int unit) { return unit / per_square; })},
          {"one_way", one_way},
          {"grid", grid_of(matrix, side, per_square)}};
}

Json skew_json(const ReportSkew& skew) {
  std::vector<std::string> hosts;
  Json ranks = Json::array();
  for (const RankTime& r : skew.ranks) {
    // Ranks of a host mostly follow each other.
    auto at = hosts.empty() || hosts.back() != r.host ? std::find(hosts.begin(), hosts.end(), r.host) : hosts.end() - 1;
    if (at == hosts.end()) at = hosts.insert(hosts.end(), r.host);
    ranks.push_back(Json::array({r.rank, at - hosts.begin(), rounded(r.own_median_s * 1e6),
                                 rounded(r.late_median_s, 1e6), rounded(r.last_share)}));
  }
  return {{"title", skew.title},
          {"straggler", skew.straggler ? Json(*skew.straggler) : Json(nullptr)},
          {"hosts", hosts},
          {"ranks", std::move(ranks)}};
}

// In the units of the picture, whose width fits a page.
constexpr double kWidth = 1000, kLabels = 90, kRow = 26, kBar = 20, kTop = 8, kAxis = 30, kRight = 40;

double place(double time_s, double whole_s) {
  return kLabels + (kWidth - kLabels - kRight) * std::clamp(time_s / whole_s, 0.0, 1.0);
}

/// Tenths of the whole.
std::string axis_of(double whole_s, double bottom) {
  std::string text;
  for (int tenth = 0; tenth <= 10; ++tenth) {
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2:.1f}\"/>"
        "<text class=\"tick\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4}</text>\n",
        place(0.1 * tenth * whole_s, whole_s), kTop, bottom, bottom + 18,
        tenth == 0 ? "0" : html_text(time_words(0.1 * tenth * whole_s)));
  }
  return text;
}

std::string lane_path(std::string_view kind, const std::vector<Interval>& lane, double y, double whole_s) {
  std::string path;
  for (const Interval& one : lane) {
    const double x = place(one.low, whole_s), width = std::max(0.3, place(one.high, whole_s) - x);
    path += fmt::format("M{:.2f} {:.1f}h{:.2f}v{}h-{:.2f}z", x, y, width, kBar, width);
  }
  return path.empty() ? path : fmt::format("<path class=\"lane-{}\" d=\"{}\"/>\n", kind, path);
}

}  // namespace

std::vector<ReportChart> group_charts(const std::vector<ReportSeries>& series) {
  std::vector<Lines> groups;
  for (const bool over_days : {false, true}) {
    Lines all;
    for (const ReportSeries& s : series) {
      if (!s.points.empty() && s.over_days == over_days) all.push_back(&s);
    }
    if (!all.empty()) divide(all, groups);
  }
  std::vector<ReportChart> charts;
  for (const Lines& group : groups) charts.push_back(chart_of(group));
  return charts;
}

ReportTable values_of(const ReportChart& chart) {
  ReportTable table{
      .title = "Values of " + chart.title,
      .columns = {"line", is_over_days(chart) ? "began" : "size", "against the default", "interval", "busbw GB/s",
                  "interval", "time µs", "interval", "epochs µs", "p99 µs", "wrong", "note"}};
  for (const ReportChart::Line& line : chart.lines) {
    for (const ReportPoint& p : line.series->points) {
      table.add({line.label, is_over_days(chart) ? p.note.substr(0, 16) : format_bytes(p.nbytes), digits(p.ratio, 1),
                 interval_words(p.ratio_interval, 1), digits(p.busbw, 1), interval_words(p.busbw_interval, 1),
                 digits(p.time_s, 1e6), interval_words(p.time_interval_s, 1e6), interval_words(p.epochs_s, 1e6),
                 digits(p.p99_s, 1e6), p.wrong ? fmt::format("{}", *p.wrong) : "", p.note});
    }
  }
  return table;
}

std::string charts_json(const std::vector<ReportChart>& charts, const std::vector<ReportMatrix>& matrices,
                        const std::vector<ReportSkew>& skews, int most_squares) {
  const auto of_line = [](const ReportChart::Line& line) {
    const ReportSeries& s = *line.series;
    return Json{{"label", line.label}, {"expected", s.expected}, {"points", json_list(s.points, point_json)}};
  };
  // The longest list comes last: an object that grows by a member copies those that it has.
  const auto of_chart = [&](const ReportChart& chart) {
    return Json{{"days", is_over_days(chart)}, {"series", json_list(chart.lines, of_line)}};
  };
  const auto of_matrix = [&](const ReportMatrix& matrix) { return matrix_json(matrix, most_squares); };
  Json document{{"skews", json_list(skews, skew_json)},
                {"matrices", json_list(matrices, of_matrix)},
                {"charts", json_list(charts, of_chart)}};
  tame(document);
  // Inside a script element nothing else ends it or begins a comment.
  return with_escapes(dump_json(document), {{'<', "\\u003c"}, {'>', "\\u003e"}, {'&', "\\u0026"}});
}

std::string html_lanes(const std::vector<ReportLanes>& ranks) {
  double whole_s = 0;
  for (const ReportLanes& lanes : ranks) whole_s = std::max(whole_s, lanes.time_s);
  if (!(whole_s > 0)) return {};
  const double bottom = kTop + 2 * kRow * static_cast<double>(ranks.size());
  std::string text = fmt::format(
      "<p class=\"caption\">{}: what each rank&#39;s GPU does. Each rank begins at its own step&#39;s beginning, "
      "because "
      "clocks differ.</p>\n<p class=\"lane-key\"><span class=\"lane-computing\"></span>computing "
      "<span class=\"lane-overlapped\"></span>communicating, overlapped "
      "<span class=\"lane-exposed\"></span>communicating, exposed </p>\n"
      "<svg class=\"lanes\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"One step\">\n",
      html_text(ranks.front().step), kWidth, bottom + kAxis);
  text += axis_of(whole_s, bottom);
  double y = kTop;
  for (const ReportLanes& lanes : ranks) {
    text += fmt::format("<text class=\"row\" x=\"{}\" y=\"{:.1f}\">rank {}</text>\n", kLabels - 8, y + kBar - 5,
                        lanes.rank);
    text += lane_path("computing", lanes.computing, y, whole_s);
    text += lane_path("overlapped", lanes.communicating, y + kRow, whole_s);
    text += lane_path("exposed", lanes.exposed, y + kRow, whole_s);
    y += 2 * kRow;
  }
  return text + "</svg>\n";
}

}  // namespace busbar
