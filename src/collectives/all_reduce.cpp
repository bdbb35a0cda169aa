#include "collectives/collective.h"

namespace busbar {

const Collective kAllReduce{
    .id = CollectiveId::all_reduce,
    .name = "all_reduce",
    .has_op = true,
    .has_root = false,
    .count = [](std::size_t elements, int, std::size_t, const Traffic*) { return elements; },
    .extents =
        [](const Problem& p) {
          return Extents{p.count, p.count};
        },
    .in_place = [](const Problem&, int) { return InPlaceOffsets{}; },
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.elem_size; },
    .bus_factor = [](int n) { return 2.0 * (n - 1) / n; },
    .expected =
        [](const Problem& p, int) {
          return std::vector<Block>{{0, p.count, kReduction, 0}};
        },
    .why_not = nullptr,
};

}  // namespace busbar
