#include "collectives/collective.h"

#include <algorithm>

namespace busbar {
namespace {

const Traffic& traffic_of(const Problem& p) {
  static const Traffic kUsual;
  return p.traffic != nullptr ? *p.traffic : kUsual;
}

}  // namespace

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
