#pragma once

#include "common/base/outcome.h"
#include "common/record/accept_plan.h"
#include "common/statistics/interval.h"

#include <optional>
#include <span>
#include <string>

namespace busbar {

/// A measured value with its doubt.
struct Estimate {
  double value = 0;
  std::optional<Interval> interval;
  bool precise = false;  ///< the interval is as narrow as the plan asked: where it contains a bound, the value decides
  /// A spread or a share, which few numbers know badly: a value that is better than a bound counts as such although the
  /// interval contains it; a worse one is still no FAIL.
  bool of_few = false;
};

struct BoundVerdict {
  Outcome outcome = Outcome::pass;
  std::string reason;  ///< for inconclusive, and for a warning that may be none
};

/// FAIL only where the whole interval is worse than `fail`, PASS only where it is better than both bounds. Where it
/// contains `fail` and is not precise: INCONCLUSIVE. Where it contains `warn`: WARN, which does not fail a run. Without
/// an interval: INCONCLUSIVE, but FAIL where the value is beyond the bound by a factor of two.
BoundVerdict judge_bound(const Estimate& estimate, const Bound& bound, bool larger_is_better);

/// 1.4826 MAD / median of values above 0, with two standard errors of it (1.166 / sqrt(n) of a normal sample, Rousseeuw
/// & Croux 1993); interval empty below 8 values.
Estimate robust_spread(std::span<const double> values);

/// The share of values above 1.5 times `usual`, with Wilson's interval.
Estimate dip_share(std::span<const double> values, double usual);

}  // namespace busbar
