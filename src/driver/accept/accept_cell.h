#pragma once

#include "common/job/job.h"
#include "common/measure/result.h"
#include "common/record/accept_result.h"
#include "driver/accept/accept_options.h"

#include <string>
#include <vector>

namespace busbar {

/// What measuring needs of the job.
struct AcceptJobContext {
  Job& job;
  const AcceptOptions& options;
  bool environment_is_set;  ///< by the launch: nothing to set per communicator
};

/// What one step measured; complete on process 0.
struct CellResults {
  std::vector<MeasuredCell> cells;
  std::vector<SkippedCell> skipped;
};

/// Tells the cell of `row` with that placement which ranks hold wrong data, and whom they blame. `group_ranks`: the
/// group's ranks as the job counts them.
void add_wrong(const Row& row, bool in_place, const std::vector<int>& group_ranks, MeasuredCell& cell);

/// One cell of the plan on all ranks, or on every host by itself at the same time, in `left_s` at most but for the
/// first look at each size; agreed, 0: no bound. Collective over the world; throws AgreedError where all processes fail
/// alike, anything else where the job must be aborted.
CellResults measure_cell(const AcceptJobContext& context, const PlanCell& cell, Stage stage, int repetition,
                         double left_s);

}  // namespace busbar
