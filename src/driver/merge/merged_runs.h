#pragma once

#include "common/record/json_values.h"
#include "common/record/read_run.h"
#include "common/statistics/interval.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// One cell over all launches.
struct MergedCell {
  Cell cell;                             ///< which one: of the first launch
  std::vector<double> launch_medians_s;  ///< in the order of the files
  LaunchesEstimate estimate;             ///< times in seconds
  int best_epochs = 0;                   ///< epochs per launch that give most precision for the time
  std::int64_t wrong = 0;                ///< wrong elements in all launches: then there are no times
};

/// Which cell it is, and what each launch measured: how documents of launches begin a cell.
Json launches_json(const MergedCell& cell);

// What documents and tables of launches have in common.

/// The first line of a table; `command`: whose.
std::string launches_line(std::string_view command, const std::vector<RunFile>& runs);

/// The columns that name a cell.
std::string launches_columns(const Cell& cell);

/// What a launch's canary took by the median of the others', and that; nothing if either is not known.
struct CanaryRatio {
  double ratio = 1;
  double usual_s = 0;
};
std::optional<CanaryRatio> canary_ratio(const std::vector<RunFile>& runs, std::size_t launch,
                                        std::optional<double> RunFile::*took_s);

/// Launches of one benchmark as one result.
struct MergedRuns {
  std::vector<RunFile> runs;
  std::vector<MergedCell> cells;
  std::vector<std::string> warnings;  ///< what differs between the launches, and what was left out
};

/// Combines launches: per cell the median of their medians with the interval of merge_launches, which is of the
/// launches, never of their epochs. `launch_cost_s`: what a launch costs besides measuring, for best_epochs. Throws
/// Error(bad_config) naming the files if there are fewer than two, one is there twice, one did not end or has no
/// --stat, or they did not measure the same thing (collective, ranks, backend, cadence, estimand, rows).
MergedRuns merge_runs(std::vector<RunFile> runs, double launch_cost_s);

/// Epochs per launch that give the most precision for the time spent (Kalibera & Jones 2013): 1 to 10000, the latter if
/// launches do not differ, so that one long one is best.
int best_epochs_per_launch(double launch_cost_s, double epoch_cost_s, double variance_between, double variance_within);

/// What stdout gets: header, a row per cell, what differs.
std::string merged_text(const MergedRuns& merged);

/// A whole JSON document with every launch's medians.
std::string merged_json(const MergedRuns& merged);

}  // namespace busbar
