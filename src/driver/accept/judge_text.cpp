#include "driver/accept/judge_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace busbar {

std::string busbw_text(double busbw) { return fmt::format("{:.4g} GB/s", busbw); }

std::string time_text(double time_s) {
  if (time_s < 1e-3) return fmt::format("{:.4g} us", time_s * 1e6);
  if (time_s < 1) return fmt::format("{:.4g} ms", time_s * 1e3);
  return fmt::format("{:.4g} s", time_s);
}

std::string share_text(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string bound_text(const Bound& bound, bool larger_is_better, std::string (*text)(double)) {
  const char* sign = larger_is_better ? ">=" : "<=";
  if (!bound.fail) return fmt::format("{} {} (else warn)", sign, text(*bound.warn));
  if (!bound.warn || *bound.warn == *bound.fail) return fmt::format("{} {}", sign, text(*bound.fail));
  return fmt::format("{} {} (warn {})", sign, text(*bound.fail), text(*bound.warn));
}

CriterionResult criterion_for(const CellSeries& series, Criterion criterion) {
  const MeasuredCell& m = series.first();
  CriterionResult c;
  c.criterion = criterion;
  c.stage = m.stage;
  c.cell = m.cell;
  c.scope = m.scope;
  c.nbytes = m.nbytes;
  c.in_place = m.in_place;
  return c;
}

BoundVerdict join_repetitions(const std::vector<BoundVerdict>& verdicts) {
  const auto count = [&](Outcome outcome) {
    return std::count_if(verdicts.begin(), verdicts.end(), [&](const auto& v) { return v.outcome == outcome; });
  };
  const auto joined = [&](Outcome outcome) {
    const auto first =
        std::find_if(verdicts.begin(), verdicts.end(), [&](const auto& v) { return v.outcome == outcome; });
    BoundVerdict result = *first;
    if (verdicts.size() > 1 && outcome != Outcome::pass) {
      result.reason = fmt::format("{} of {} repetitions, the first is number {}{}{}", count(outcome), verdicts.size(),
                                  first - verdicts.begin() + 1, result.reason.empty() ? "" : ": ", result.reason);
    }
    return result;
  };
  if (count(Outcome::fail) > 0) return joined(Outcome::fail);
  if (2 * count(Outcome::inconclusive) >= static_cast<std::ptrdiff_t>(verdicts.size())) {
    return joined(Outcome::inconclusive);
  }
  if (count(Outcome::warn) > 0) return joined(Outcome::warn);
  return joined(count(Outcome::pass) > 0 ? Outcome::pass : verdicts.front().outcome);
}

std::string host_of(const AcceptResult& result, int rank) {
  for (const AcceptResult::Host& host : result.hosts) {
    if (std::find(host.ranks.begin(), host.ranks.end(), rank) != host.ranks.end()) return host.name;
  }
  return {};
}

}  // namespace busbar
