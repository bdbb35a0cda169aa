#pragma once

#include "common/record/history_run.h"
#include "common/statistics/trend.h"

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  std::size_t bursts = 0;          ///< runs that began within an hour count as one observation
  std::size_t latest_burst = 0;    ///< index of the first point of the latest
  double earlier_median_s = 0;     ///< of all but the latest burst, or where it is alone of its other runs; 0: one run
  std::optional<double> distance;  ///< of the latest's ln(time) from the earlier, in robust deviations (5 of them)
  double latest_p = 1;             ///< of "the latest is like the earlier", however the runs are correlated
  std::optional<double>
      month_slope;  ///< growth of the time in 30 days as a share, Theil and Sen; from 3 days and 8 bursts
  double p = 1;     ///< of "no trend", however the runs are correlated
  std::optional<LevelChange> change;  ///< of the time [s], at p <= 0.01; `first_after` is an index of `points`

  /// Beyond 3.5 robust deviations of the earlier runs, which happens by chance in 1 of 100 at most.
  bool latest_is_slow() const { return latest_p <= 0.01 && distance && *distance > 3.5; }
  bool latest_is_fast() const { return latest_p <= 0.01 && distance && *distance < -3.5; }
};

/// Gathers every cell of runs over time, each setup by itself: times of different setups say nothing of one another. It
/// keeps of a run what it needs, and no more of it than the latest thousand runs of a cell. Pure.
class TrendBook {
 public:
  /// A run with its cells, from the latest run back.
  void add(const HistoryRun& run);

  /// The trends, in the order of the latest runs' cells. The book is empty afterwards.
  std::vector<CellTrend> judge();

 private:
  std::deque<CellTrend> trends_;
  std::map<std::pair<std::string, CellIdentity>, CellTrend*> index_;  ///< by the cell of the trend itself
};

/// Values as a line of at most `width` signs, the last ones, from the least to the largest: blocks, or where `ascii`
/// digits 0 to 7. Equal values are all in the middle.
std::string sparkline(std::span<const double> values, std::size_t width, bool ascii);

}  // namespace busbar
