#pragma once

#include "common/statistics/interval.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace busbar {

inline constexpr std::size_t kEnoughLaunches = 6;  ///< fewer have no order statistics at 95 %

struct Moments {
  double mean = 0;
  double variance = 0;  ///< with n - 1; 0 for one value
};
/// Of at least one value.
Moments moments(std::span<const double> values);

/// One cell over several launches of the same benchmark. From 6 launches on, the interval is that of their medians by
/// order statistics. With 2 to 5 there is none at 95 %: only a cluster bootstrap (launches, then epochs; 2000 draws),
/// which is too narrow and must be labeled `few`.
struct LaunchesEstimate {
  double median = 0;                 ///< of the launches' medians
  std::optional<Interval> interval;  ///< null for one launch, and for few without a seed
  bool few = false;                  ///< fewer than 6 launches
  double variance_between = 0;       ///< of ln of the launches' medians, less the epochs' part; at least 0
  double variance_within = 0;        ///< of ln of one epoch's median, mean over launches
};

/// `epochs`: each launch's epoch medians in time order; `seed`: of the bootstrap, if few shall have one. Throws if a
/// launch has none, or a time that is not above 0.
LaunchesEstimate merge_launches(std::span<const std::vector<double>> epochs, std::optional<std::uint64_t> seed = {});

}  // namespace busbar
