#include "driver/history/history_trend.h"

#include "common/base/timestamp.h"
#include "common/statistics/interval.h"
#include "driver/history/history_setup.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace busbar {
namespace {

constexpr double kLeastDeviation = 0.005;  // of ln(time): runs that happen to agree to the digit are no measure
constexpr double kLeastDays = 3;
constexpr std::size_t kLeastRuns = 8;
constexpr std::size_t kMostRuns = 1000;  // slopes take the square
constexpr double kChangeAlpha = 0.01;

/// Runs of one burst, which are one observation.
struct Burst {
  std::size_t first = 0;  ///< index of its first point
  std::vector<double> logs;

  /// Of the last `most` runs.
  double middle(std::size_t most) const { return median(std::span(logs).last(std::min(most, logs.size()))); }
};

std::vector<Burst> bursts_of(const std::vector<CellTrend::Point>& points) {
  std::vector<std::optional<std::int64_t>> times;
  for (const CellTrend::Point& point : points) times.push_back(parse_local_timestamp(point.time));
  std::vector<Burst> found;
  const std::vector<std::size_t> numbers = burst_numbers(times);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (numbers[i] == found.size()) found.push_back({i, {}});
    found.back().logs.push_back(std::log(points[i].median_s));
  }
  return found;
}

std::vector<double> middles(const std::vector<Burst>& bursts, std::size_t most) {
  std::vector<double> logs;
  for (const Burst& burst : bursts) logs.push_back(burst.middle(most));
  return logs;
}

void judge_slope(CellTrend& trend, const std::vector<Burst>& bursts, const std::vector<double>& logs) {
  std::vector<double> days;
  for (const Burst& burst : bursts) {
    const auto time = parse_local_timestamp(trend.points[burst.first].time);
    if (!time) return;
    days.push_back(static_cast<double>(*time) / 86400);
  }
  if (days.size() < kLeastRuns || days.back() - days.front() < kLeastDays) return;
  trend.month_slope = std::expm1(30 * theil_sen_slope(days, logs));
}

void judge_trend(CellTrend& trend) {
  const std::vector<Burst> bursts = bursts_of(trend.points);
  trend.bursts = bursts.size();
  trend.latest_burst = bursts.back().first;
  // A lone run scatters more than the median of several does: of each burst as many are taken as the latest has.
  const std::vector<double> alike = middles(bursts, bursts.back().logs.size());
  const std::span<const double> earlier(alike.data(), alike.size() - 1);
  const std::vector<double>& latest = bursts.back().logs;
  const std::span<const double> shown = earlier.empty() ? std::span(latest).first(latest.size() - 1) : earlier;
  if (!shown.empty()) trend.earlier_median_s = std::exp(median(shown));
  trend.distance = robust_distance(earlier, alike.back(), kLeastDeviation);
  trend.latest_p = last_value_p(alike);
  const std::vector<double> logs = middles(bursts, kMostRuns);
  trend.p = trend_p(logs);
  trend.change = level_change(logs, kChangeAlpha);
  if (trend.change) {
    trend.change->first_after = bursts[trend.change->first_after].first;
    trend.change->before = std::exp(trend.change->before);
    trend.change->after = std::exp(trend.change->after);
  }
  judge_slope(trend, bursts, logs);
}

}  // namespace

void TrendBook::add(const HistoryRun& run) {
  const std::string of = setup(run);
  for (const Cell& cell : run.cells) {
    auto known = index_.find({of, identity(cell)});
    if (known == index_.end()) {
      CellTrend& trend = trends_.emplace_back();
      trend.cell = cell;
      trend.setup = of;
      known = index_.emplace(std::pair(of, identity(trend.cell)), &trend).first;
    }
    std::vector<CellTrend::Point>& points = known->second->points;
    if (points.size() < kMostRuns) points.push_back({run.id, run.time, cell.median_s, cell.busbw});
  }
}

std::vector<CellTrend> TrendBook::judge() {
  index_.clear();
  for (CellTrend& trend : trends_) {
    std::reverse(trend.points.begin(), trend.points.end());
    judge_trend(trend);
  }
  return {std::make_move_iterator(trends_.begin()), std::make_move_iterator(trends_.end())};
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
