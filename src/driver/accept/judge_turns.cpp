#include "driver/accept/judge_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {

double core_wait_of(const std::vector<const MeasuredCell*>& repetitions) {
  std::vector<double> waits;
  for (const MeasuredCell* m : repetitions) waits.push_back(m->core_wait.value_or(0));
  return waits.empty() ? 0 : median(waits);
}

bool takes_turns(double core_wait) {
  // As in locate's look at ranks (slow_ranks.h): beyond a sixth the scheduler is seen more than what is measured.
  constexpr double kTurns = 1.0 / 6;
  return core_wait > kTurns;
}

std::string core_wait_text(double core_wait) {
  return fmt::format("ranks waited for a core {:.0f} % of the time: other work has them, or other ranks",
                     core_wait * 100);
}

BoundVerdict doubt_turns(BoundVerdict verdict, double core_wait) {
  if (verdict.outcome < Outcome::warn || !takes_turns(core_wait)) return verdict;
  verdict.outcome = std::min(verdict.outcome, Outcome::inconclusive);
  verdict.reason += (verdict.reason.empty() ? "" : "; ") + core_wait_text(core_wait);
  return verdict;
}

}  // namespace busbar
