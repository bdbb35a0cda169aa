#include "collectives/collective.h"

namespace busbar {

const Collective kReduceScatterv{
    .id = CollectiveId::reduce_scatterv,
    .name = "reduce_scatterv",
    .has_op = true,
    .count = traffic_count,
    .extents = [](const Problem& p) { return kScatterv.extents(with_root_0(p)); },
    .rank_extents = [](const Problem& p, int rank) -> Extents {
      return {all_blocks(kReduceScatterv, p), kReduceScatterv.block(p, rank)};
    },
    .block = [](const Problem& p, int rank) { return kScatterv.block(with_root_0(p), rank); },
    .in_place = [](const Problem& p, int rank) { return kScatterv.in_place(with_root_0(p), rank); },
    .algorithm_bytes = [](const Problem& p) { return kScatterv.algorithm_bytes(with_root_0(p)); },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected =
        [](const Problem& p, int rank) {
          const std::size_t from = block_offset(kReduceScatterv, p, rank);
          return std::vector<Block>{{0, kReduceScatterv.block(p, rank), kReduction, from}};
        },
    .why_not = why_no_traffic,
};

}  // namespace busbar
