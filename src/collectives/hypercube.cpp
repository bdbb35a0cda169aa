#include "collectives/collective.h"

#include <bit>

namespace busbar {

const Collective kHypercube{
    .id = CollectiveId::hypercube,
    .name = "hypercube",
    .count = chunk_count,
    .extents = one_to_all,
    .in_place = sends_own_block,
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * (p.nranks - 1) * p.elem_size; },
    .bus_factor = [](int) { return 1.0; },
    .expected = [](const Problem& p, int rank) { return kAllGather.expected(p, rank); },
    .why_not = [](const Problem& p) -> std::string {
      if (std::has_single_bit(static_cast<unsigned>(p.nranks))) return {};
      return "hypercube needs a power-of-two number of ranks, not " + std::to_string(p.nranks);
    },
};

}  // namespace busbar
