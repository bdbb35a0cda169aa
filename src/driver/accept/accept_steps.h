#pragma once

#include "common/record/accept_plan.h"
#include "common/record/accept_result.h"

#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// What is measured once and kept. Cells of a stage share its time, so that a run cut short loses a stage at most.
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

/// ", and up to 4 min more where a host looks slow": what the pairs may take beside max-time; empty: nothing.
std::string looks_allowance(const AcceptPlan& plan);

/// What --dry-run prints: steps, criteria, time.
std::string accept_dry_run(const AcceptPlan& plan, bool launches);

/// What an interrupted run of the same plan measured becomes part of `result`, which has just begun.
void take_over(AcceptResult& result, AcceptResult earlier);

/// One more look at the pairs: of all looks the worst finding stands, with every look's culprits where several failed,
/// so that a fault that comes and goes is not forgotten; one that could not tell gives way to one that could.
void add_located(AcceptResult& result, AcceptResult::Located look);

/// The repetition in which a resumed run goes on: the last one of which anything was measured.
int last_repetition(const AcceptResult& result);

/// Whether the resumed run has this step of this repetition already. Steps without cells (doctor, pairs) are told for
/// repetition 0 alone.
bool is_measured(const AcceptResult& result, const AcceptStep& step, int repetition);

/// What a launch measured becomes part of the whole: hosts, cells, doctor rows, counters, finished steps.
void add_part(AcceptResult& whole, AcceptResult part);

}  // namespace busbar
