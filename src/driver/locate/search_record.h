#pragma once

#include "driver/locate/score_pairs.h"
#include "driver/locate/search.h"
#include "driver/locate/soak_watch.h"

#include <limits>
#include <vector>

namespace busbar {

/// What a group of more than two achieved, for --halving.
struct GroupResult {
  std::vector<int> units;
  int level = 0;
  double bandwidth = 0;
};

/// All that a search has measured.
struct SearchRecord {
  SearchRecord(int units, const SearchOptions& wanted) : nunits(units), options(wanted), soak(units) {}
  bool few() const { return nunits < 8; }
  PairEvidence score(bool one_way) const { return score_pairs(results, one_way, nunits, threshold, few()); }

  int nunits;
  SearchOptions options;
  std::vector<PairResult> results;
  std::vector<GroupResult> groups;
  SoakWatch soak;
  double noise = std::numeric_limits<double>::quiet_NaN();
  double threshold = 0;
  int rounds = 0;
  int calibration_rounds = 0;
  int alone_rounds = 0;
};

/// The rails on which `unit` is slow each time, against other units on the same rail, or where nobody else ran on it,
/// against its own best.
std::vector<int> slow_rails(const SearchRecord& record, int unit);

/// A group of --halving that is slow each time although none of its halves is, against the best quartile of the groups
/// of its level.
struct SlowGroup {
  std::vector<int> units;
  SlowCount measurements;
  double chance = 1;  ///< groups like it that luck alone would make, by how often those without its units are slow
};
std::vector<SlowGroup> slow_groups(const SearchRecord& record);

/// The conclusion. Pure.
LocateFinding conclude(const SearchRecord& record);

}  // namespace busbar
