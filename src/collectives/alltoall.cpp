#include "collectives/collective.h"

namespace busbar {

const Collective kAlltoall{
    .id = CollectiveId::alltoall,
    .name = "alltoall",
    .replaces_input = true,
    .count = chunk_count,
    .extents = [](const Problem& p) -> Extents {
      return {p.count * p.nranks, p.count * p.nranks};
    },
    .in_place = same_place,
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.nranks * p.elem_size; },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected =
        [](const Problem& p, int rank) {
          std::vector<Block> blocks;
          blocks.reserve(p.nranks);
          for (int r = 0; r < p.nranks; ++r) blocks.push_back({p.count * r, p.count, r, p.count * rank});
          return blocks;
        },
};

}  // namespace busbar
