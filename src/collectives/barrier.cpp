#include "collectives/collective.h"

namespace busbar {

const Collective kBarrier{
    .id = CollectiveId::barrier,
    .name = "barrier",
    .moves_data = false,
    .count = [](std::size_t, int, std::size_t, const Traffic*) { return std::size_t{0}; },
    .extents = [](const Problem&) -> Extents { return {}; },
    .algorithm_bytes = [](const Problem&) { return 0.0; },
    .bus_factor = [](int) { return 1.0; },
    .expected = [](const Problem&, int) -> std::vector<Block> { return {}; },
};

}  // namespace busbar
