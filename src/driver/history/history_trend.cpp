#include "driver/history/history_trend.h"

#include "common/base/timestamp.h"
#include "common/statistics/series.h"
#include "driver/history/history_setup.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace busbar {
namespace {

constexpr double kLeastDeviation = 0.005;  // of ln(time): runs that happen to agree to the digit are no measure
constexpr double kLeastDays = 3;
constexpr std::size_t kLeastRuns = 8;
constexpr std::size_t kMostRuns = 1000;  // slopes take the square
constexpr double kChangeAlpha = 0.01;

void judge_slope(CellTrend& trend, const std::vector<double>& logs) {
  std::vector<double> days;
  for (const CellTrend::Point& point : trend.points) {
    const auto time = parse_local_timestamp(point.time);
    if (!time) return;
    days.push_back(static_cast<double>(*time) / 86400);
  }
  if (days.size() < kLeastRuns || days.back() - days.front() < kLeastDays) return;
  trend.month_slope = std::expm1(30 * theil_sen_slope(days, logs));
}

void judge_trend(CellTrend& trend) {
  if (trend.points.size() > kMostRuns) {
    trend.points.erase(trend.points.begin(), trend.points.end() - static_cast<std::ptrdiff_t>(kMostRuns));
  }
  std::vector<double> times;
  std::vector<double> logs;
  for (const CellTrend::Point& point : trend.points) {
    times.push_back(point.median_s);
    logs.push_back(std::log(point.median_s));
  }
  const std::span<const double> earlier(logs.data(), logs.size() - 1);
  if (!earlier.empty()) trend.earlier_median_s = std::exp(median(earlier));
  trend.distance = robust_distance(earlier, logs.back(), kLeastDeviation);
  trend.p = mann_kendall_p(logs);
  trend.change = level_change(times, kChangeAlpha);
  judge_slope(trend, logs);
}

}  // namespace

std::vector<CellTrend> trends(std::span<const HistoryRun> runs) {
  std::vector<CellTrend> all;
  std::map<std::pair<std::string, CellIdentity>, std::size_t> index;
  // From the latest back, so that its cells come first and in its order.
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    const std::string of = setup(*run);
    for (const Cell& cell : run->cells) {
      const auto [at, fresh] = index.try_emplace(std::pair(of, identity(cell)), all.size());
      if (fresh) {
        CellTrend& trend = all.emplace_back();
        trend.cell = cell;
        trend.setup = of;
      }
      all[at->second].points.push_back({run->id, run->time, cell.median_s, cell.busbw});
    }
  }
  for (CellTrend& trend : all) {
    std::reverse(trend.points.begin(), trend.points.end());
    judge_trend(trend);
  }
  return all;
}

std::string sparkline(std::span<const double> values, std::size_t width, bool ascii) {
  static constexpr const char* kBlocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                            "\u2585", "\u2586", "\u2587", "\u2588"};
  static constexpr const char* kDigits[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
  values = values.last(std::min(values.size(), width));
  if (values.empty()) return "";
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  std::string line;
  for (const double value : values) {
    const double share = *high > *low ? (value - *low) / (*high - *low) : 0.5;
    const auto step = static_cast<std::size_t>(std::clamp(std::lround(7 * share), 0l, 7l));
    line += ascii ? kDigits[step] : kBlocks[step];
  }
  return line;
}

}  // namespace busbar
