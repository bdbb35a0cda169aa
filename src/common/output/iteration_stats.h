#pragma once

#include "common/measure/result.h"

namespace busbar {

/// The summary of -I over the iterations that are left after the skipped ones; all zero when none is left.
struct IterationStats {
  double min_s = 0;
  double max_s = 0;
  double avg_s = 0;
  double p50_s = 0;
  double p95_s = 0;
  double p99_s = 0;
  double stdev_s = 0;  ///< of the population
  double cv_pct = 0;   ///< stdev / avg [%]
};

/// Order statistics by nccl-tests' rule (util.cu, computeIterStats), so that the two suites' columns compare.
IterationStats iteration_stats(const IterationTimes& iterations);

}  // namespace busbar
