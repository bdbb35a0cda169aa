#pragma once

#include "common/record/accept_plan.h"

#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// What is done at a time, and lost at most where a run is cut short.
struct AcceptStep {
  Stage stage = Stage::doctor;
  int cell = -1;   ///< index in the plan; -1 for doctor and pairs
  std::string id;  ///< "doctor", "pairs", "whole/all_reduce"
};

/// The plan's steps in the order of its stages.
std::vector<AcceptStep> steps_of(const AcceptPlan& plan);

/// A step of this id in the plan; throws Error(bad_config).
AcceptStep find_step(const AcceptPlan& plan, const std::string& id);

/// About how long a step measures [s]; the start of a launch not counted.
double estimate_step_s(const AcceptPlan& plan, const AcceptStep& step);

/// Steps that can share a launch, because they are of one stage and want the same environment.
struct AcceptPart {
  Stage stage = Stage::doctor;
  std::vector<AcceptStep> steps;
  std::vector<std::pair<std::string, std::string>> environment;
};
std::vector<AcceptPart> parts_of(const AcceptPlan& plan, const std::vector<AcceptStep>& steps);

/// What a reader must know where max-time was over before these steps.
std::string out_of_time_remark(const AcceptPlan& plan, const std::vector<AcceptStep>& late);

/// What --dry-run prints: steps, criteria, time.
std::string accept_dry_run(const AcceptPlan& plan, bool launches);

}  // namespace busbar
