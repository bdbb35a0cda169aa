#include "collectives/collective.h"

namespace busbar {

const Collective kReduce{
    .id = CollectiveId::reduce,
    .name = "reduce",
    .has_op = true,
    .has_root = true,
    .count = [](std::size_t elements, int, std::size_t, const Traffic*) { return elements; },
    .extents =
        [](const Problem& p) {
          return Extents{p.count, p.count};
        },
    .in_place = [](const Problem&, int) { return InPlaceOffsets{}; },
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.elem_size; },
    .bus_factor = [](int) { return 1.0; },
    .expected =
        [](const Problem& p, int rank) {
          return rank == p.root ? std::vector<Block>{{0, p.count, kReduction, 0}} : std::vector<Block>{};
        },
    .why_not = nullptr,
};

}  // namespace busbar
