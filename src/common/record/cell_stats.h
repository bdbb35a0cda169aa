#pragma once

#include "common/statistics/interval.h"
#include "common/statistics/series.h"
#include "common/statistics/stop_rule.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// A quantile of all samples of a cell, with its interval where there are epochs enough for one.
struct Quantile {
  double q = 0;
  double value_s = 0;
  std::optional<Interval> interval_s;
};

/// One rank in a cell of --per-rank, over all samples. Lateness is counted from the first rank's arrival, on a common
/// clock; nothing where no clock sees it.
struct RankTime {
  int rank = 0;
  std::string host;
  double own_median_s = 0;  ///< of the rank's own time in the operation
  std::optional<double> late_median_s = {};
  std::optional<double> late_p99_s = {};
  std::optional<double> last_share = {};  ///< of the samples, in which this rank arrived last

  bool operator==(const RankTime&) const = default;
};

/// Below which a trend is more than the wandering of a machine explains in 1 of 100 cells (docs/statistics.md).
inline constexpr double kDriftP = 0.002;

/// The statistics of one cell (--stat). Times are of one operation; the same on all processes but for `ranks`.
struct CellStats {
  double median_s = 0;                 ///< of the epochs' medians
  std::optional<Interval> interval_s;  ///< 95 %; of this launch's median over the next minute
  double relative_half_width = 0;
  double span_s = 0;              ///< from the first epoch to the last
  double correlation_time_s = 0;  ///< of the drift, estimated; 0: not known
  StopReason stop = StopReason::time;
  std::vector<Quantile> quantiles;      ///< 0.5 0.9 0.95 0.99 0.999 and 1 (the largest) of all samples
  std::vector<double> epoch_medians_s;  ///< in time order
  std::uint64_t samples = 0;
  int samples_per_epoch = 0;
  int calls_per_sample = 1;  ///< above 1 where one call is too short for the clock
  int warmup_calls = 0;
  bool warmed_up = true;  ///< false: times were still falling when the warm-up was cut off
  double lag1 = 0;
  double trend_p = 1;  ///< of "no trend" (trend.h), whatever the correlation time; below kDriftP the cell drifted
  std::optional<Modes> modes;
  Outliers outliers;                    ///< of the samples [s]
  std::optional<double> skew_median_s;  ///< entry spread: last arrival less first; nothing where no host clock sees it
  std::optional<double> skew_p99_s;
  double clock_error_s = 0;     ///< of arrivals on different hosts (GlobalClock::error_s)
  double canary_spread = 1;     ///< p90/p10 of the spin canary over the epochs used
  bool shared_cores = false;    ///< more ranks than cores on a host: the scheduler chooses who arrives last
  std::vector<RankTime> ranks;  ///< --per-rank; complete on process 0
};

}  // namespace busbar
