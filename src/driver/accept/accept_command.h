#pragma once

#include "common/base/options.h"
#include "common/record/accept_plan.h"
#include "driver/formats/output_options.h"

#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// What the command line of `busbar accept` says.
struct AcceptOptions {
  std::string plan_file;  ///< or the name of a shipped plan
  std::string launch;     ///< --launch; empty: this job is the one
  std::optional<int> nranks;
  std::string results;  ///< -J
  std::string resume;
  std::string report;
  std::string baseline;
  std::string save_baseline;
  double baseline_margin = -1;  ///< -1: the judge's own
  bool strict = false;
  bool dry_run = false;
  OutputOptions outputs;

  /// Of the benchmarks' options those that hold for every cell: --backend, -T, --inject, --paranoid, -g, -t, --seed.
  CommandLine line;

  // For the ranks of a launch, which the launching busbar sets. ---------------------------------------------------
  std::vector<std::string> part;  ///< ids of steps; empty: the whole plan
  std::string part_results;       ///< where to leave what was measured
  int repetition = 0;             ///< of repeat_for
  double left_s = 0;              ///< of the plan's whole time; 0: no bound
};

/// The part that measures nothing: does a launch start at all?
inline constexpr std::string_view kStartOnly = "start";

/// The cell's options with those of the command line over them.
Config config_of(const PlanCell& cell, const AcceptOptions& options);

/// The plan in `text` under these options: all that can be wrong with it, or with them over it, is found here. Throws
/// Error(bad_config).
AcceptPlan checked_plan(const std::string& text, const AcceptOptions& options);

/// The words by which a launch gets the same benchmarks' options.
std::vector<std::string> passed_on(const AcceptOptions& options);

/// The plan's text: of the file, or where there is none of the shipped plan of that name. Throws Error(bad_config).
std::string read_plan_text(const std::string& file);

}  // namespace busbar
