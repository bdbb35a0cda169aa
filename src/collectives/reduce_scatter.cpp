#include "collectives/collective.h"

namespace busbar {

const Collective kReduceScatter{
    .id = CollectiveId::reduce_scatter,
    .name = "reduce_scatter",
    .has_op = true,
    .has_root = false,
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
          return std::vector<Block>{{0, p.count, kReduction, p.count * rank}};
        },
    .why_not = nullptr,
};

}  // namespace busbar
