#pragma once

#include "common/record/read_run.h"
#include "driver/compare/comparison.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// What the launches of one variant brought.
struct VariantRuns {
  Variant variant;
  std::vector<RunFile> runs;  ///< one per launch
  std::string why_not;        ///< not empty: a launch failed, and how; its runs do not count
};

/// Launches as a comparison: one per type, operation and root, with one number per launch and size (its median), Mann
/// and Whitney's test and Hodges and Lehmann's shift. The first variant is the library's own choice. A row that a
/// variant's launch did not measure is n/a there. Throws Error(not_possible) where the launches did not measure the
/// same thing (ranks, backend, cadence), or the first variant measured nothing.
std::vector<Comparison> compare_runs(const Collective& collective, std::span<const VariantRuns> variants, double delta,
                                     bool in_place);

/// Launches of each variant that `cells` comparisons need so that Holm's adjustment can still let a difference pass:
/// the least p of Mann and Whitney, 2 / (2n over n), times the cells is at most 0.02. At least 6.
int launches_for(std::size_t cells);

}  // namespace busbar
