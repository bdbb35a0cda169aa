#pragma once

#include "common/record/history_run.h"
#include "common/statistics/trend.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// One cell over the runs of one setup, oldest first.
struct CellTrend {
  Cell cell;          ///< of the latest run
  std::string setup;  ///< setup() of these runs
  struct Point {
    std::int64_t run = 0;
    std::string time;
    double median_s = 0;
    double busbw = 0;
  };
  std::vector<Point> points;
  double earlier_median_s = 0;     ///< of all but the latest; 0 where there is one run only
  std::optional<double> distance;  ///< of the latest's ln(time) from the earlier, in robust deviations (5 of them)
  std::optional<double>
      month_slope;  ///< growth of the time in 30 days as a share, Theil and Sen; from 3 days and 8 runs
  double p = 1;     ///< Mann-Kendall, of "no trend"
  std::optional<LevelChange> change;  ///< of the time [s], at p <= 0.01

  /// Beyond 3.5 robust deviations of the earlier runs, slower.
  bool latest_is_slow() const { return distance && *distance > 3.5; }
  bool latest_is_fast() const { return distance && *distance < -3.5; }
};

/// Every cell of these runs (oldest first, with their cells) over time, each setup by itself: times of different setups
/// say nothing of one another. In the order of the latest runs' cells. Pure.
std::vector<CellTrend> trends(std::span<const HistoryRun> runs);

/// Values as a line of at most `width` signs, the last ones, from the least to the largest: blocks, or where `ascii`
/// digits 0 to 7. Equal values are all in the middle.
std::string sparkline(std::span<const double> values, std::size_t width, bool ascii);

}  // namespace busbar
