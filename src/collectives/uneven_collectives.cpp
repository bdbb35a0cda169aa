#include "collectives/collective.h"

#include <algorithm>

// The collectives in which each rank has a block of its own size, or one for each other rank.

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
    .expected =
        [](const Problem& p, int rank) {
          const std::size_t from = block_offset(kReduceScatterv, p, rank);
          return std::vector<Block>{{0, kReduceScatterv.block(p, rank), kReduction, from}};
        },
    .why_not = why_no_traffic,
};

namespace {

/// Elements sent over distance (dst - src) mod nranks; only for generated traffic (nccl-tests alltoallv.cu).
std::size_t generated_count(const Problem& p, int distance) {
  const std::size_t total_bytes = p.count * p.nranks * p.elem_size;
  if (p.nranks == 1) return total_bytes / 16 * 16 / p.elem_size;
  const double n = p.nranks;
  const double uniform = static_cast<double>(total_bytes) / n;
  const double weighted = distance * static_cast<double>(total_bytes) / (n * (n - 1) / 2);
  const double bytes = (1 - p.traffic->spread) * uniform + p.traffic->spread * weighted;
  return static_cast<std::size_t>(bytes) / 16 * 16 / p.elem_size;
}

Extents rank_extents(const Problem& p, int rank) {
  Extents e;
  for (int peer = 0; peer < p.nranks; ++peer) {
    e.send += alltoallv_count(p, rank, peer);
    e.recv += alltoallv_count(p, peer, rank);
  }
  return e;
}

Extents extents(const Problem& p) {
  // Every rank sends over every distance.
  if (!p.traffic->from_matrix()) return rank_extents(p, 0);
  Extents largest;
  for (int rank = 0; rank < p.nranks; ++rank) {
    const Extents mine = rank_extents(p, rank);
    largest = {std::max(largest.send, mine.send), std::max(largest.recv, mine.recv)};
  }
  return largest;
}

std::vector<Block> expected(const Problem& p, int rank) {
  std::vector<Block> blocks;
  blocks.reserve(p.nranks);
  std::size_t at = 0;
  // prefix[d]: elements sent over distances below d, so that each source's offset is O(1).
  std::vector<std::size_t> prefix(p.nranks + 1, 0);
  if (!p.traffic->from_matrix())
    for (int d = 0; d < p.nranks; ++d) prefix[d + 1] = prefix[d] + generated_count(p, d);
  for (int src = 0; src < p.nranks; ++src) {
    const std::size_t count = alltoallv_count(p, src, rank);
    std::size_t from = 0;
    if (p.traffic->from_matrix()) {
      from = alltoallv_send_offset(p, src, rank);
    } else {
      // Destinations 0 .. rank-1 are at the distances from -src up, taken modulo nranks.
      const int first = (p.nranks - src) % p.nranks;
      const int last = first + rank;
      from =
          last <= p.nranks ? prefix[last] - prefix[first] : prefix[p.nranks] - prefix[first] + prefix[last - p.nranks];
    }
    blocks.push_back({at, count, src, from});
    at += count;
  }
  return blocks;
}

}  // namespace

std::size_t traffic_count(std::size_t elements, int nranks, std::size_t elem_size, const Traffic* traffic) {
  return traffic->from_matrix() ? 0 : aligned_chunk(elements, nranks, elem_size);
}

std::string why_no_traffic(const Problem& p) {
  if (!p.traffic->from_matrix() || p.nranks <= p.traffic->dim) return {};
  return "the alltoallv matrix has " + std::to_string(p.traffic->dim) + " rows, fewer than the " +
         std::to_string(p.nranks) + " ranks";
}

std::size_t alltoallv_count(const Problem& p, int src, int dst) {
  if (!p.traffic->from_matrix()) return generated_count(p, (dst - src + p.nranks) % p.nranks);
  return p.traffic->bytes[static_cast<std::size_t>(src) * p.traffic->dim + dst] / p.elem_size;
}

bool alltoallv_is_symmetric(const Problem& p) {
  for (int src = 0; src < (p.traffic->from_matrix() ? p.nranks : 1); ++src) {
    for (int dst = 0; dst < p.nranks; ++dst)
      if (alltoallv_count(p, src, dst) != alltoallv_count(p, dst, src)) return false;
  }
  return true;
}

std::size_t alltoallv_send_offset(const Problem& p, int src, int dst) {
  std::size_t offset = 0;
  for (int d = 0; d < dst; ++d) offset += alltoallv_count(p, src, d);
  return offset;
}

const Collective kAlltoallv{
    .id = CollectiveId::alltoallv,
    .name = "alltoallv",
    .replaces_input = true,
    .count = traffic_count,
    .extents = extents,
    .rank_extents = rank_extents,
    .in_place = same_place,
    .algorithm_bytes =
        [](const Problem& p) {
          const Extents e = extents(p);
          return static_cast<double>(std::max(e.send, e.recv)) * p.elem_size;
        },
    .expected = expected,
    .why_not = why_no_traffic,
};

}  // namespace busbar
