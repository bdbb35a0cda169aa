#include "collectives/collective.h"

namespace busbar {

const Collective kScatterv{
    .id = CollectiveId::scatterv,
    .name = "scatterv",
    .has_root = true,
    .count = traffic_count,
    .extents = [](const Problem& p) -> Extents {
      return {all_blocks(kScatterv, p), largest_block(kScatterv, p)};
    },
    .rank_extents = [](const Problem& p, int rank) -> Extents {
      return {rank == p.root ? all_blocks(kScatterv, p) : 0, kScatterv.block(p, rank)};
    },
    .block = [](const Problem& p, int rank) { return alltoallv_count(p, p.root, rank); },
    .in_place = [](const Problem& p, int rank) -> InPlaceOffsets {
      return {0, block_offset(kScatterv, p, rank)};
    },
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(all_blocks(kScatterv, p)) * p.elem_size; },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected = [](const Problem& p, int rank) -> std::vector<Block> {
      return {{0, kScatterv.block(p, rank), p.root, block_offset(kScatterv, p, rank)}};
    },
    .why_not = why_no_traffic,
};

}  // namespace busbar
