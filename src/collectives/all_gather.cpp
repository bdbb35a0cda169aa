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
    .has_op = false,
    .has_root = false,
    .count = [](std::size_t elements, int nranks, std::size_t w,
                const Traffic*) { return aligned_chunk(elements, nranks, w); },
    .extents =
        [](const Problem& p) {
          return Extents{p.count, p.count * p.nranks};
        },
    .in_place =
        [](const Problem& p, int rank) {
          return InPlaceOffsets{p.count * rank, 0};
        },
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.nranks * p.elem_size; },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected = from_every_rank,
    .why_not = nullptr,
};

}  // namespace busbar
