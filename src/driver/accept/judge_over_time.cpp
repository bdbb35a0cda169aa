#include "common/statistics/series.h"
#include "driver/accept/judge_parts.h"

#include <fmt/format.h>

#include <cmath>

namespace busbar {

void judge_over_time(const CellSeries& series, CriterionResults& criteria) {
  if (!series.plan->criteria.drift) return;
  const Bound& bound = *series.plan->criteria.drift;
  CriterionResult c = criterion_for(series, Criterion::drift);
  c.wanted = bound_text(bound, false, share_text);
  c.source = "the plan";
  std::vector<double> times;
  for (const MeasuredCell* m : series.repetitions) {
    if (std::isfinite(m->median_s) && m->median_s > 0) times.push_back(m->median_s);
  }
  constexpr std::size_t kFewest = 9;
  if (times.size() < kFewest) {
    c.outcome = Outcome::skip;
    c.reason = fmt::format("{} repetitions are too few to tell a drift, {} needed", times.size(), kFewest);
    criteria.push_back(std::move(c));
    return;
  }
  const std::span<const double> all(times);
  const std::size_t third = times.size() / 3;
  const double drift = median(all.last(third)) / median(all.first(third)) - 1;
  const double p = mann_kendall_p(all);
  c.found = fmt::format("{:+.1f} % over {} repetitions (trend p = {:.2g})", drift * 100, times.size(), p);
  // Without a trend the thirds differ by noise.
  if (p < 0.01) {
    const Estimate estimate{.value = drift, .interval = Interval{drift, drift}, .precise = true};
    const std::vector<const MeasuredCell*> last(series.repetitions.end() - static_cast<std::ptrdiff_t>(third),
                                                series.repetitions.end());
    const BoundVerdict verdict = doubt_turns(judge_bound(estimate, bound, false), core_wait_of(last));
    c.outcome = verdict.outcome;
    c.reason = verdict.reason;
  }
  criteria.push_back(std::move(c));
}

}  // namespace busbar
