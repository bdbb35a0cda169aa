#include "collectives/collective.h"

namespace busbar {

const Collective kGatherv{
    .id = CollectiveId::gatherv,
    .name = "gatherv",
    .has_root = true,
    .count = traffic_count,
    .extents = [](const Problem& p) -> Extents {
      return {largest_block(kGatherv, p), all_blocks(kGatherv, p)};
    },
    .rank_extents = [](const Problem& p, int rank) -> Extents {
      return {kGatherv.block(p, rank), rank == p.root ? all_blocks(kGatherv, p) : 0};
    },
    .block = [](const Problem& p, int rank) { return alltoallv_count(p, rank, p.root); },
    .in_place = [](const Problem& p, int rank) -> InPlaceOffsets {
      return {block_offset(kGatherv, p, rank), 0};
    },
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(all_blocks(kGatherv, p)) * p.elem_size; },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected =
        [](const Problem& p, int rank) {
          std::vector<Block> blocks;
          std::size_t at = 0;
          for (int source = 0; rank == p.root && source < p.nranks; ++source) {
            const std::size_t count = kGatherv.block(p, source);
            blocks.push_back({at, count, source, 0});
            at += count;
          }
          return blocks;
        },
    .why_not = why_no_traffic,
};

}  // namespace busbar
