#include "collectives/collective.h"

namespace busbar {

const Collective kScatter{
    .id = CollectiveId::scatter,
    .name = "scatter",
    .has_op = false,
    .has_root = true,
    .count = [](std::size_t elements, int nranks, std::size_t w,
                const Traffic*) { return aligned_chunk(elements, nranks, w); },
    .extents =
        [](const Problem& p) {
          return Extents{p.count * p.nranks, p.count};
        },
    .in_place =
        [](const Problem& p, int rank) {
          return InPlaceOffsets{0, p.count * rank};
        },
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * p.nranks * p.elem_size; },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected =
        [](const Problem& p, int rank) {
          return std::vector<Block>{{0, p.count, p.root, p.count * rank}};
        },
    .why_not = nullptr,
};

}  // namespace busbar
