#include "collectives/collective.h"

namespace busbar {

const Collective kAllReduce{
    .id = CollectiveId::all_reduce,
    .name = "all_reduce",
    .has_op = true,
    .count = whole_count,
    .extents = one_to_one,
    .in_place = same_place,
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.elem_size; },
    .bus_factor = [](int n) { return 2.0 * (n - 1) / n; },
    .expected = [](const Problem& p, int) -> std::vector<Block> {
      return {{0, p.count, kReduction, 0}};
    },
};

}  // namespace busbar
