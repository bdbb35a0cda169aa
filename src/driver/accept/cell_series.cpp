#include "common/statistics/launches.h"
#include "driver/accept/judge_parts.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace busbar {

std::vector<CellSeries> series_of(const AcceptResult& result) {
  std::map<std::string, std::size_t> order;
  for (const PlanCell& cell : result.plan.cells) order.emplace(cell.name, order.size());
  const auto key = [](const MeasuredCell& m) {
    return std::tie(m.cell, m.stage, m.scope, m.collective, m.dtype, m.op, m.nbytes, m.in_place);
  };
  std::vector<CellSeries> series;
  std::map<decltype(key(std::declval<MeasuredCell>())), std::size_t> at;
  for (const MeasuredCell& m : result.cells) {
    const auto planned = order.find(m.cell);
    if (planned == order.end()) continue;
    const auto [found, is_new] = at.try_emplace(key(m), series.size());
    if (is_new) series.push_back({&result.plan.cells[planned->second], {}});
    series[found->second].repetitions.push_back(&m);
  }
  for (CellSeries& s : series) {
    std::stable_sort(s.repetitions.begin(), s.repetitions.end(),
                     [](const auto* a, const auto* b) { return a->repetition < b->repetition; });
  }
  std::stable_sort(series.begin(), series.end(), [](const auto& a, const auto& b) { return a.plan < b.plan; });
  return series;
}

Estimate time_of(const CellSeries& series) {
  const MeasuredCell& m = series.first();
  if (series.repetitions.size() == 1) return {m.median_s, m.interval_s, m.stop == StopReason::ci};
  std::vector<std::vector<double>> epochs;
  for (const MeasuredCell* repetition : series.repetitions) {
    const bool good = std::all_of(repetition->epoch_medians_s.begin(), repetition->epoch_medians_s.end(),
                                  [](double t) { return std::isfinite(t) && t > 0; });
    if (good && !repetition->epoch_medians_s.empty()) epochs.push_back(repetition->epoch_medians_s);
  }
  if (epochs.empty()) return {std::nan(""), std::nullopt, false};
  const LaunchesEstimate merged = merge_launches(epochs, 1);
  return {merged.median, merged.interval, false};
}

}  // namespace busbar
