#include "collectives/collective.h"

namespace busbar {

const Collective kScatter{
    .id = CollectiveId::scatter,
    .name = "scatter",
    .has_root = true,
    .count = chunk_count,
    .extents = all_to_one,
    .in_place = receives_own_block,
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.nranks * p.elem_size; },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected = [](const Problem& p, int rank) -> std::vector<Block> {
      return {{0, p.count, p.root, p.count * rank}};
    },
};

}  // namespace busbar
