#include "collectives/collective.h"

namespace busbar {

const Collective kGather{
    .id = CollectiveId::gather,
    .name = "gather",
    .has_op = false,
    .has_root = true,
    .count = [](std::size_t elements, int nranks, std::size_t w,
                const Traffic*) { return aligned_chunk(elements, nranks, w); },
    .extents =
        [](const Problem& p) {
          return Extents{p.count, p.count * p.nranks};
        },
    .in_place =
        [](const Problem& p, int rank) {
          return InPlaceOffsets{p.count * rank, 0};
        },
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.nranks * p.elem_size; },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected = [](const Problem& p,
                   int rank) { return rank == p.root ? kAllGather.expected(p, rank) : std::vector<Block>{}; },
    .why_not = nullptr,
};

}  // namespace busbar
