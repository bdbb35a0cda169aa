#include "collectives/collective.h"

// The collectives in which each rank has a block of its own size.

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
    .bus_factor = share_of_others,
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
    .bus_factor = share_of_others,
    .expected = [](const Problem& p, int rank) -> std::vector<Block> {
      return {{0, kScatterv.block(p, rank), p.root, block_offset(kScatterv, p, rank)}};
    },
    .why_not = why_no_traffic,
};

const Collective kAllGatherv{
    .id = CollectiveId::all_gatherv,
    .name = "all_gatherv",
    .count = traffic_count,
    .extents = [](const Problem& p) { return kGatherv.extents(with_root_0(p)); },
    .rank_extents = [](const Problem& p, int rank) -> Extents {
      return {kAllGatherv.block(p, rank), all_blocks(kAllGatherv, p)};
    },
    .block = [](const Problem& p, int rank) { return kGatherv.block(with_root_0(p), rank); },
    .in_place = [](const Problem& p, int rank) { return kGatherv.in_place(with_root_0(p), rank); },
    .algorithm_bytes = [](const Problem& p) { return kGatherv.algorithm_bytes(with_root_0(p)); },
    .bus_factor = share_of_others,
    .expected = [](const Problem& p, int) { return kGatherv.expected(with_root_0(p), 0); },
    .why_not = why_no_traffic,
};

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
    .bus_factor = share_of_others,
    .expected =
        [](const Problem& p, int rank) {
          const std::size_t from = block_offset(kReduceScatterv, p, rank);
          return std::vector<Block>{{0, kReduceScatterv.block(p, rank), kReduction, from}};
        },
    .why_not = why_no_traffic,
};

}  // namespace busbar
