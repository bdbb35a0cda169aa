#include "collectives/collective.h"

namespace busbar {

const Collective kReduce{
    .id = CollectiveId::reduce,
    .name = "reduce",
    .has_op = true,
    .has_root = true,
    .count = whole_count,
    .extents = one_to_one,
    .in_place = same_place,
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.elem_size; },
    .bus_factor = [](int) { return 1.0; },
    .expected =
        [](const Problem& p, int rank) {
          return rank == p.root ? std::vector<Block>{{0, p.count, kReduction, 0}} : std::vector<Block>{};
        },
};

}  // namespace busbar
