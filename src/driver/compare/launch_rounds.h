#pragma once

#include "common/base/options.h"
#include "common/record/read_run.h"
#include "driver/compare/comparison.h"
#include "driver/launch/launching.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// A variant whose launches differ from others' in the words before the program, and what they measured.
struct LaunchedVariant {
  Variant variant;
  std::vector<std::string> prefix;  ///< "env", "NAME=VALUE"
  std::vector<RunFile> runs;        ///< one per launch
  std::string why_not;              ///< not empty: a launch failed, and how; its runs do not count
};

/// Launches as a comparison: one per type, operation and root, with one number per launch and size (its median), each
/// pair of them one difference of logarithms, and Student's t. The first variant is the library's own choice. A row
/// that a variant's launch did not measure is n/a there. Throws Error(not_possible) if the launches did not measure
/// the same thing (ranks, backend, cadence), or the first variant measured nothing.
std::vector<Comparison> compare_runs(const Collective& collective, std::span<const LaunchedVariant> variants,
                                     double delta, bool in_place);

/// Launches of each variant that `cells` comparisons need so that Holm's adjustment lets a difference pass that is
/// twice what pairs of launches differ by (their standard deviation): its p by Student's t, times the cells, is at most
/// 0.05. At least 6.
int launches_for(std::size_t cells);

/// Launches of one benchmark that alternate between variants.
struct LaunchSeries {
  std::string launch;         ///< the user's launch command (launch_command)
  std::optional<int> nranks;  ///< for "{ranks}" in it
  const Collective* collective = nullptr;
  Config config;                 ///< what is measured
  std::vector<Setting> options;  ///< that say so, as the user set them
  std::vector<LaunchedVariant> variants;
  int launches = 8;        ///< of each variant
  double measure_s = 5;    ///< --max-time of a launch
  double timeout_s = 60;   ///< of a launch, then it is killed
  std::uint64_t seed = 1;  ///< of the order
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();  ///< for a new round
  bool out_of_time = false;  ///< it came before the last round
};

/// Runs them: in each round every variant once, in random order, each second round the mirror image of the one before,
/// so that drift hits all alike. A launch that fails takes its variant out, with the reason. If it is the first
/// variant's, there is nothing to compare with: throws Error with the launch's own exit code. Shows progress on a
/// terminal. Throws Interrupted.
void run_series(LaunchSeries& series, const LaunchFolder& folder);

/// The whole command of a launch that writes `results`; `number` enters its seed.
std::vector<std::string> launch_words(const LaunchSeries& series, const LaunchedVariant& variant,
                                      const std::string& results, int number);

/// Cells that a launch measures, as far as is known before.
std::size_t planned_cells(const Config& config, const Collective& collective);

/// The time that a launch needs besides measuring, and that one of so many cells needs to measure, for estimates [s].
inline constexpr double kLaunchOverhead = 2;
double measuring_time_s(std::size_t cells);

}  // namespace busbar
