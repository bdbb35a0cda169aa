#include "collectives/collective.h"

namespace busbar {

const Collective kBarrier{
    .id = CollectiveId::barrier,
    .name = "barrier",
    .has_op = false,
    .has_root = false,
    .moves_data = false,
    .count = [](std::size_t, int, std::size_t, const Traffic*) { return std::size_t{0}; },
    .extents = [](const Problem&) { return Extents{}; },
    .in_place = nullptr,
    .algorithm_bytes = [](const Problem&) { return 0.0; },
    .bus_factor = [](int) { return 1.0; },
    .expected = [](const Problem&, int) { return std::vector<Block>{}; },
    .why_not = nullptr,
};

}  // namespace busbar
