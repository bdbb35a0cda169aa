#include "collectives/collective.h"

namespace busbar {

const Collective kSendrecv{
    .id = CollectiveId::sendrecv,
    .name = "sendrecv",
    .has_op = false,
    .has_root = false,
    .replaces_input = true,
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
          return std::vector<Block>{{0, p.count, (rank + p.nranks - 1) % p.nranks, 0}};
        },
    .why_not = nullptr,
};

}  // namespace busbar
