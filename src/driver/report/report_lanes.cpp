#include "common/statistics/interval.h"
#include "driver/report/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace busbar {
namespace {

// In the units of the picture, whose width fits a page.
constexpr double kWidth = 1000, kLabels = 90, kRow = 26, kBar = 20, kTop = 8, kAxis = 30, kRight = 40;

double place(double time_s, double whole_s) {
  return kLabels + (kWidth - kLabels - kRight) * std::clamp(time_s / whole_s, 0.0, 1.0);
}

/// 1, 2 or 5 times a power of ten: at most ten of them.
double tick_of(double whole_s) {
  const double power = std::pow(10, std::floor(std::log10(whole_s / 10)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (whole_s / (factor * power) <= 10) return factor * power;
  }
  return 10 * power;
}

std::string axis_of(double whole_s, double bottom) {
  std::string text;
  const double tick_s = tick_of(whole_s);
  for (double at_s = 0; at_s <= whole_s * (1 + 1e-9); at_s += tick_s) {
    const double x = place(at_s, whole_s);
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2:.1f}\"/>"
        "<text class=\"tick\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4}</text>\n",
        x, kTop, bottom, bottom + 18, at_s == 0 ? "0" : html_text(time_words(at_s)));
  }
  return text;
}

}  // namespace

std::string html_lanes(const ReportLanes& lanes) {
  if (!(lanes.time_s > 0) || lanes.rows.empty()) return {};
  const double bottom = kTop + kRow * static_cast<double>(lanes.rows.size());
  std::string text = fmt::format("<p class=\"caption\">{}</p>\n<p class=\"lane-key\">", html_text(lanes.caption));
  for (const ReportLanes::Kind& kind : lanes.kinds) {
    text += fmt::format("<span class=\"{}\"></span>{} ", html_text(kind.style), html_text(kind.name));
  }
  text += fmt::format("</p>\n<svg class=\"lanes\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                      bottom + kAxis, html_text(lanes.title, 200));
  text += axis_of(lanes.time_s, bottom);
  double y = kTop;
  for (const ReportLanes::Row& row : lanes.rows) {
    text += fmt::format("<text class=\"row\" x=\"{}\" y=\"{:.1f}\">{}</text>\n", kLabels - 8, y + kBar - 5,
                        html_text(row.name, 40));
    for (std::size_t k = 0; k < std::min(row.of_kind.size(), lanes.kinds.size()); ++k) {
      std::string path;
      for (const Interval& one : row.of_kind[k]) {
        const double x = place(one.low, lanes.time_s), width = std::max(0.3, place(one.high, lanes.time_s) - x);
        path += fmt::format("M{:.2f} {:.1f}h{:.2f}v{}h-{:.2f}z", x, y, width, kBar, width);
      }
      if (!path.empty()) text += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", html_text(lanes.kinds[k].style), path);
    }
    y += kRow;
  }
  return text + "</svg>\n";
}

}  // namespace busbar
