#pragma once

#include "driver/merge/merged_runs.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// After how many launches a series may stop, at most `launches` of them: 6, 8 and 10 if it waits for a width, and
/// always the last.
std::vector<int> looks_of(int launches, bool waits_for_width);

/// What each look may miss so that all together miss 5 % (Pocock, 1977: nominal levels for 1 to 4 looks).
double level_of(std::size_t looks);

/// The launches' medians as one number: their geometric mean, with Student's interval of their logarithms, which misses
/// `level`. No interval below two launches.
struct LaunchMean {
  double time_s = 0;
  std::optional<Interval> interval_s;
  /// Of the time; infinite without an interval.
  double half_width() const;
};
LaunchMean launch_mean(const std::vector<double>& medians_s, double level);

/// A launch that is unlike the others by more than chance: Rosner's procedure for at most a third of the launches, at 1
/// % over the series, on the median over the rows of the logarithm of a launch's time to the others'. At least five
/// must be left.
struct OddLaunch {
  std::size_t launch = 0;            ///< from 0
  double ratio = 1;                  ///< its times by the others', the median over the rows
  std::vector<std::string> reasons;  ///< what was recorded that would explain it
};

/// Launches of one command as one result.
struct RepeatedRuns {
  MergedRuns merged;
  std::vector<LaunchMean> means;  ///< of merged.cells
  std::vector<OddLaunch> odd;
  double level = 0.05;
  std::size_t looks = 1;
  std::string command, stopped;  ///< why there are no more launches

  bool within(double relative_half_width) const;
};

/// Throws Error(bad_config) if the launches did not measure the same thing, as merge_runs, or there are fewer than
/// two. Runs without --stat count with their one time per row.
RepeatedRuns repeat_runs(std::vector<RunFile> runs, double level);

/// What stdout gets: a row per cell with time, interval and bus bandwidth, and what was odd.
std::string repeated_text(const RepeatedRuns& repeated);

/// A whole JSON document with every launch's medians.
std::string repeated_json(const RepeatedRuns& repeated);

}  // namespace busbar
