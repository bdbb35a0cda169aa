#include "collectives/collective.h"

namespace busbar {

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
    .bus_factor = [](int n) { return static_cast<double>(n - 1) / n; },
    .expected = [](const Problem& p, int) { return kGatherv.expected(with_root_0(p), 0); },
    .why_not = why_no_traffic,
};

}  // namespace busbar
