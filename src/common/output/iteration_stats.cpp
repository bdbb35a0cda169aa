#include "common/output/iteration_stats.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace busbar {
namespace {

// Nearest rank: ceil(n * percent / 100), counted from 1.
double percentile(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[std::min(sorted.size() - 1, (sorted.size() * percent + 99) / 100 - 1)];
}

}  // namespace

IterationStats iteration_stats(const IterationTimes& iterations) {
  const auto skipped = static_cast<std::size_t>(std::max(0, iterations.skipped));
  if (skipped >= iterations.times_s.size()) return {};
  std::vector<double> sorted(iterations.times_s.begin() + static_cast<std::ptrdiff_t>(skipped),
                             iterations.times_s.end());
  std::sort(sorted.begin(), sorted.end());

  const double n = static_cast<double>(sorted.size());
  const double avg_s = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  double squares = 0;
  for (double time_s : sorted) squares += (time_s - avg_s) * (time_s - avg_s);
  const double stdev_s = std::sqrt(squares / n);
  return {
      .min_s = sorted.front(),
      .max_s = sorted.back(),
      .avg_s = avg_s,
      .p50_s = sorted[sorted.size() / 2],
      .p95_s = percentile(sorted, 95),
      .p99_s = percentile(sorted, 99),
      .stdev_s = stdev_s,
      .cv_pct = avg_s > 0 ? stdev_s / avg_s * 100 : 0,
  };
}

}  // namespace busbar
