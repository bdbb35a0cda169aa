#include "collectives/collective.h"

#include <algorithm>
#include <bit>

// The collectives in which every rank moves the same amount: whole messages, or a block for each rank.

namespace busbar {
namespace {

double whole_bytes(const Problem& p) { return static_cast<double>(p.count) * p.elem_size; }

/// `count` elements of every rank, from the same place of each.
std::vector<Block> from_every_rank(const Problem& p, std::size_t from) {
  std::vector<Block> blocks;
  blocks.reserve(p.nranks);
  for (int r = 0; r < p.nranks; ++r) blocks.push_back({p.count * r, p.count, r, from});
  return blocks;
}

const Traffic& traffic_of(const Problem& p) {
  static const Traffic kUsual;
  return p.traffic != nullptr ? *p.traffic : kUsual;
}

}  // namespace

const Collective kAllReduce{
    .id = CollectiveId::all_reduce,
    .name = "all_reduce",
    .has_op = true,
    .count = whole_count,
    .extents = one_to_one,
    .in_place = same_place,
    .algorithm_bytes = whole_bytes,
    .bus_factor = [](int n) { return 2.0 * (n - 1) / n; },
    .expected = [](const Problem& p, int) -> std::vector<Block> {
      return {{0, p.count, kReduction, 0}};
    },
};

const Collective kReduce{
    .id = CollectiveId::reduce,
    .name = "reduce",
    .has_op = true,
    .has_root = true,
    .count = whole_count,
    .extents = one_to_one,
    .in_place = same_place,
    .algorithm_bytes = whole_bytes,
    .bus_factor = all_once,
    .expected =
        [](const Problem& p, int rank) {
          return rank == p.root ? std::vector<Block>{{0, p.count, kReduction, 0}} : std::vector<Block>{};
        },
};

const Collective kBroadcast{
    .id = CollectiveId::broadcast,
    .name = "broadcast",
    .has_root = true,
    .count = whole_count,
    .extents = one_to_one,
    .in_place = same_place,
    .algorithm_bytes = whole_bytes,
    .bus_factor = all_once,
    .expected = [](const Problem& p, int) -> std::vector<Block> {
      return {{0, p.count, p.root, 0}};
    },
};

const Collective kSendrecv{
    .id = CollectiveId::sendrecv,
    .name = "sendrecv",
    .replaces_input = true,
    .count = whole_count,
    .extents = one_to_one,
    .in_place = same_place,
    .algorithm_bytes = whole_bytes,
    .bus_factor = all_once,
    .expected = [](const Problem& p, int rank) -> std::vector<Block> {
      return {{0, p.count, (rank + p.nranks - 1) % p.nranks, 0}};
    },
};

const Collective kAllGather{
    .id = CollectiveId::all_gather,
    .name = "all_gather",
    .extents = one_to_all,
    .in_place = sends_own_block,
    .expected = [](const Problem& p, int) { return from_every_rank(p, 0); },
};

const Collective kGather{
    .id = CollectiveId::gather,
    .name = "gather",
    .has_root = true,
    .extents = one_to_all,
    .in_place = sends_own_block,
    .expected = [](const Problem& p,
                   int rank) { return rank == p.root ? kAllGather.expected(p, rank) : std::vector<Block>{}; },
};

const Collective kHypercube{
    .id = CollectiveId::hypercube,
    .name = "hypercube",
    .extents = one_to_all,
    .in_place = sends_own_block,
    .algorithm_bytes = [](const Problem& p) { return static_cast<double>(p.count) * (p.nranks - 1) * p.elem_size; },
    .bus_factor = all_once,
    .expected = [](const Problem& p, int rank) { return kAllGather.expected(p, rank); },
    .why_not = [](const Problem& p) -> std::string {
      if (std::has_single_bit(static_cast<unsigned>(p.nranks))) return {};
      return "hypercube needs a power-of-two number of ranks, not " + std::to_string(p.nranks);
    },
};

const Collective kReduceScatter{
    .id = CollectiveId::reduce_scatter,
    .name = "reduce_scatter",
    .has_op = true,
    .extents = all_to_one,
    .in_place = receives_own_block,
    .expected = [](const Problem& p, int rank) -> std::vector<Block> {
      return {{0, p.count, kReduction, p.count * rank}};
    },
};

const Collective kScatter{
    .id = CollectiveId::scatter,
    .name = "scatter",
    .has_root = true,
    .extents = all_to_one,
    .in_place = receives_own_block,
    .expected = [](const Problem& p, int rank) -> std::vector<Block> {
      return {{0, p.count, p.root, p.count * rank}};
    },
};

const Collective kAlltoall{
    .id = CollectiveId::alltoall,
    .name = "alltoall",
    .replaces_input = true,
    .extents = [](const Problem& p) -> Extents {
      return {p.count * p.nranks, p.count * p.nranks};
    },
    .in_place = same_place,
    .expected = [](const Problem& p, int rank) { return from_every_rank(p, p.count * rank); },
};

const Collective kBarrier{
    .id = CollectiveId::barrier,
    .name = "barrier",
    .moves_data = false,
    .count = [](std::size_t, int, std::size_t, const Traffic*) { return std::size_t{0}; },
    .extents = [](const Problem&) -> Extents { return {}; },
    .algorithm_bytes = [](const Problem&) { return 0.0; },
    .bus_factor = all_once,
    .expected = [](const Problem&, int) -> std::vector<Block> { return {}; },
};

int pingpong_peer(const Problem& p, int rank) {
  const int n = p.nranks;
  if (p.root == kHalves) return (rank + n / 2) % n;
  // The circle method (https://en.wikipedia.org/wiki/Round-robin_tournament#Circle_method): the last rank stays, the
  // others turn. In round r two ranks meet if their sum is 2r modulo n - 1; r, paired with itself, meets the last.
  const int turning = n - 1;
  const int round = p.root % turning;
  if (rank == turning) return round;
  const int peer = (2 * round - rank + 2 * turning) % turning;
  return peer == rank ? turning : peer;
}

std::string pingpong_pairs(const Problem& p) {
  constexpr int kMost = 4;
  std::string text;
  int pairs = 0;
  for (int rank = 0; rank < p.nranks; ++rank) {
    const int peer = pingpong_peer(p, rank);
    if (peer < rank) continue;
    if (pairs++ == kMost) return text + " ...";
    text += (text.empty() ? "" : " ") + std::to_string(rank) + "-" + std::to_string(peer);
  }
  return text;
}

const Collective kPingpong{
    .id = CollectiveId::pingpong,
    .name = "pingpong",
    .has_root = true,
    .count = whole_count,
    .extents = one_to_one,
    // Both directions count, as in osu_bibw.
    .algorithm_bytes =
        [](const Problem& p) {
          const int ways = traffic_of(p).pattern == PingpongPattern::both ? 2 : 1;
          return static_cast<double>(p.count) * ways * p.elem_size;
        },
    .bus_factor = all_once,
    .expected = [](const Problem& p, int rank) -> std::vector<Block> {
      const int peer = pingpong_peer(p, rank);
      if (traffic_of(p).pattern == PingpongPattern::oneway && rank < peer) return {};
      return {{0, p.count, peer, 0}};
    },
    .why_not = [](const Problem& p) -> std::string {
      if (p.nranks % 2 == 0) return {};
      return "pingpong needs an even number of ranks, so that each has a peer, not " + std::to_string(p.nranks);
    },
    .messages_per_call =
        [](const Problem& p) {
          return traffic_of(p).pattern == PingpongPattern::latency ? 2 : std::max(1, traffic_of(p).window);
        },
};

}  // namespace busbar
