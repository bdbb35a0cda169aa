#include "collectives/collective.h"

namespace busbar {

const Collective kGather{
    .id = CollectiveId::gather,
    .name = "gather",
    .has_root = true,
    .count = chunk_count,
    .extents = one_to_all,
    .in_place = sends_own_block,
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.nranks * p.elem_size; },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected = [](const Problem& p,
                   int rank) { return rank == p.root ? kAllGather.expected(p, rank) : std::vector<Block>{}; },
};

}  // namespace busbar
