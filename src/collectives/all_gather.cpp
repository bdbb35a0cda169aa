#include "collectives/collective.h"

namespace busbar {

namespace {

std::vector<Block> from_every_rank(const Problem& p, int) {
  std::vector<Block> blocks;
  blocks.reserve(p.nranks);
  for (int r = 0; r < p.nranks; ++r) blocks.push_back({p.count * r, p.count, r, 0});
  return blocks;
}

}  // namespace

const Collective kAllGather{
    .id = CollectiveId::all_gather,
    .name = "all_gather",
    .count = chunk_count,
    .extents = one_to_all,
    .in_place = sends_own_block,
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.nranks * p.elem_size; },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected = from_every_rank,
};

}  // namespace busbar
