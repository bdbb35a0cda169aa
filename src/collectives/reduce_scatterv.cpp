#include "collectives/collective.h"

namespace busbar {
namespace {

/// Reduced at rank 0, its blocks go where that rank would scatter them.
Problem scattered_from_0(Problem p) {
  p.root = 0;
  return p;
}

}  // namespace

const Collective kReduceScatterv{
    .id = CollectiveId::reduce_scatterv,
    .name = "reduce_scatterv",
    .has_op = true,
    .has_root = false,
    .count = traffic_count,
    .extents = [](const Problem& p) { return kScatterv.extents(scattered_from_0(p)); },
    .rank_extents =
        [](const Problem& p, int rank) {
          return Extents{all_blocks(kReduceScatterv, p), kReduceScatterv.block(p, rank)};
        },
    .block = [](const Problem& p, int rank) { return kScatterv.block(scattered_from_0(p), rank); },
    .in_place = [](const Problem& p, int rank) { return kScatterv.in_place(scattered_from_0(p), rank); },
    .algorithm_bytes = [](const Problem& p) { return kScatterv.algorithm_bytes(scattered_from_0(p)); },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected =
        [](const Problem& p, int rank) {
          const std::size_t from = block_offset(kReduceScatterv, p, rank);
          return std::vector<Block>{{0, kReduceScatterv.block(p, rank), kReduction, from}};
        },
    .why_not = why_no_traffic,
};

}  // namespace busbar
