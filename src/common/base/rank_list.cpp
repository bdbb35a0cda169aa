#include "common/base/rank_list.h"

#include <algorithm>

namespace busbar {

std::vector<int> RankList::each() const {
  std::vector<int> ranks;
  ranks.reserve(size_);
  for (const Range& range : ranges_) {
    for (std::int64_t rank = range.first; rank <= range.last; ++rank) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

RankList missing_ranks(std::span<const int> ascending, int nranks) {
  RankList missing;
  std::int64_t next = 0;
  for (const int rank : ascending) {
    if (rank < next) continue;
    if (rank >= nranks) break;
    if (rank > next) missing.add({static_cast<int>(next), rank - 1});
    next = static_cast<std::int64_t>(rank) + 1;
  }
  if (next < nranks) missing.add({static_cast<int>(next), nranks - 1});
  return missing;
}

}  // namespace busbar
