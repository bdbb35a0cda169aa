#include "collectives/collective.h"

namespace busbar {

const Collective kBroadcast{
    .id = CollectiveId::broadcast,
    .name = "broadcast",
    .has_root = true,
    .count = whole_count,
    .extents = one_to_one,
    .in_place = same_place,
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.elem_size; },
    .bus_factor = [](int) { return 1.0; },
    .expected = [](const Problem& p, int) -> std::vector<Block> {
      return {{0, p.count, p.root, 0}};
    },
};

}  // namespace busbar
