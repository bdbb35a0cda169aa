#include "collectives/collective.h"

namespace busbar {
namespace {

/// What rank 0 has of it, all have in the end.
Problem gathered_at_0(Problem p) {
  p.root = 0;
  return p;
}

}  // namespace

const Collective kAllGatherv{
    .id = CollectiveId::all_gatherv,
    .name = "all_gatherv",
    .has_op = false,
    .has_root = false,
    .count = traffic_count,
    .extents = [](const Problem& p) { return kGatherv.extents(gathered_at_0(p)); },
    .rank_extents =
        [](const Problem& p, int rank) {
          return Extents{kAllGatherv.block(p, rank), all_blocks(kAllGatherv, p)};
        },
    .block = [](const Problem& p, int rank) { return kGatherv.block(gathered_at_0(p), rank); },
    .in_place = [](const Problem& p, int rank) { return kGatherv.in_place(gathered_at_0(p), rank); },
    .algorithm_bytes = [](const Problem& p) { return kGatherv.algorithm_bytes(gathered_at_0(p)); },
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected = [](const Problem& p, int) { return kGatherv.expected(gathered_at_0(p), 0); },
    .why_not = why_no_traffic,
};

}  // namespace busbar
