#include "collectives/collective.h"

namespace busbar {

const Collective kSendrecv{
    .id = CollectiveId::sendrecv,
    .name = "sendrecv",
    .replaces_input = true,
    .count = whole_count,
    .extents = one_to_one,
    .in_place = same_place,
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.elem_size; },
    .bus_factor = [](int) { return 1.0; },
    .expected = [](const Problem& p, int rank) -> std::vector<Block> {
      return {{0, p.count, (rank + p.nranks - 1) % p.nranks, 0}};
    },
};

}  // namespace busbar
