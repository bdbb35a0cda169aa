#include "common/backends/transfers.h"

#include <algorithm>
#include <bit>
#include <climits>

namespace busbar {
namespace {

void add(std::vector<Transfer>& out, Transfer::Kind kind, int peer, std::size_t at, std::size_t count) {
  // Both sides of a transfer compute the same count, so both leave out an empty one.
  if (count > 0) out.push_back({kind, peer, at, count});
}

void plan_ring_shift(const Problem& p, int rank, std::vector<Transfer>& out) {
  add(out, Transfer::Kind::send, (rank + 1) % p.nranks, 0, p.count);
  add(out, Transfer::Kind::receive, (rank + p.nranks - 1) % p.nranks, 0, p.count);
}

void plan_alltoallv(const Problem& p, int rank, std::vector<Transfer>& out) {
  std::size_t send_at = 0;
  std::size_t recv_at = 0;
  for (int peer = 0; peer < p.nranks; ++peer) {
    const std::size_t send_count = alltoallv_count(p, rank, peer);
    const std::size_t recv_count = alltoallv_count(p, peer, rank);
    add(out, Transfer::Kind::send, peer, send_at, send_count);
    add(out, Transfer::Kind::receive, peer, recv_at, recv_count);
    send_at += send_count;
    recv_at += recv_count;
  }
}

void plan_alltoall(const Problem& p, std::vector<Transfer>& out) {
  for (int peer = 0; peer < p.nranks; ++peer) {
    add(out, Transfer::Kind::send, peer, p.count * static_cast<std::size_t>(peer), p.count);
    add(out, Transfer::Kind::receive, peer, p.count * static_cast<std::size_t>(peer), p.count);
  }
}

std::size_t block_of(const Collective& c, const Problem& p, int rank) {
  return c.block != nullptr ? c.block(p, rank) : p.count;
}

/// Every rank's block to `to`, or to all if that is -1.
void plan_gather(const Collective& c, const Problem& p, int rank, int to, std::vector<Transfer>& out) {
  std::size_t at = 0;
  for (int peer = 0; peer < p.nranks; ++peer) {
    const std::size_t count = block_of(c, p, peer);
    if (to < 0 || to == peer) add(out, Transfer::Kind::send, peer, 0, block_of(c, p, rank));
    if (to < 0 || to == rank) add(out, Transfer::Kind::receive, peer, at, count);
    at += count;
  }
}

void plan_scatter(const Collective& c, const Problem& p, int rank, std::vector<Transfer>& out) {
  std::size_t at = 0;
  for (int peer = 0; peer < p.nranks; ++peer) {
    const std::size_t count = block_of(c, p, peer);
    if (rank == p.root) add(out, Transfer::Kind::send, peer, at, count);
    if (rank == peer) add(out, Transfer::Kind::receive, p.root, 0, count);
    at += count;
  }
}

void plan_hypercube(const Problem& p, int rank, int step, std::vector<Transfer>& out) {
  // Before step k a rank holds the 2^k blocks of the ranks that differ from it only in the lowest k bits.
  const unsigned mask = 1u << step;
  const unsigned mine = static_cast<unsigned>(rank) & ~(mask - 1);
  const unsigned theirs = mine ^ mask;
  const int peer = static_cast<int>(static_cast<unsigned>(rank) ^ mask);
  add(out, Transfer::Kind::forward, peer, p.count * mine, p.count * mask);
  add(out, Transfer::Kind::receive, peer, p.count * theirs, p.count * mask);
}

/// The higher rank's pong is a separate step, as it may only start after the ping. A window is one group; a one-way
/// window needs no answer, as the receiver's time counts too.
void plan_pingpong(const Problem& p, int rank, int step, std::vector<Transfer>& out) {
  const int peer = pingpong_peer(p, rank);
  const bool begins = rank < peer;
  const PingpongPattern pattern = p.traffic->pattern;
  if (pattern == PingpongPattern::latency)
    return add(out, begins == (step == 0) ? Transfer::Kind::send : Transfer::Kind::receive, peer, 0, p.count);
  const bool both = pattern == PingpongPattern::both;
  for (int i = 0; i < p.traffic->window; ++i) {
    if (both || begins) add(out, Transfer::Kind::send, peer, 0, p.count);
    if (both || !begins) add(out, Transfer::Kind::receive, peer, 0, p.count);
  }
}

}  // namespace

const Collective* called_per_block(const Collective& collective) {
  if (collective.block == nullptr || collective.has_root) return nullptr;
  return collective.has_op ? &kReduce : &kBroadcast;
}

bool only_transfers(const Collective& collective) {
  return collective.id == CollectiveId::sendrecv || collective.id == CollectiveId::hypercube ||
         collective.id == CollectiveId::pingpong;
}

bool made_of_transfers(const Collective& collective) {
  return only_transfers(collective) || (uses_traffic(collective) && called_per_block(collective) == nullptr);
}

bool sends_a_copy_in_place(const Collective& collective, const Problem& problem) {
  if (collective.id != CollectiveId::alltoallv) return false;
  const Extents e = collective.extents(problem);
  return std::max(e.send, e.recv) > INT_MAX || !alltoallv_is_symmetric(problem);
}

int transfer_steps(const Collective& collective, const Problem& problem) {
  if (collective.id == CollectiveId::pingpong) return problem.traffic->pattern == PingpongPattern::latency ? 2 : 1;
  if (collective.id != CollectiveId::hypercube) return 1;
  return std::bit_width(static_cast<unsigned>(problem.nranks)) - 1;
}

void plan_transfers(const Collective& collective, const Problem& problem, int rank, int step,
                    std::vector<Transfer>& out) {
  out.clear();
  switch (collective.id) {
    case CollectiveId::sendrecv:
      return plan_ring_shift(problem, rank, out);
    case CollectiveId::alltoallv:
      return plan_alltoallv(problem, rank, out);
    case CollectiveId::hypercube:
      return plan_hypercube(problem, rank, step, out);
    case CollectiveId::pingpong:
      return plan_pingpong(problem, rank, step, out);
    case CollectiveId::all_gatherv:
      return plan_gather(collective, problem, rank, -1, out);
    case CollectiveId::gather:
    case CollectiveId::gatherv:
      return plan_gather(collective, problem, rank, problem.root, out);
    case CollectiveId::alltoall:
      return plan_alltoall(problem, out);
    case CollectiveId::scatter:
    case CollectiveId::scatterv:
      return plan_scatter(collective, problem, rank, out);
    case CollectiveId::all_reduce:
    case CollectiveId::all_gather:
    case CollectiveId::reduce_scatter:
    case CollectiveId::broadcast:
    case CollectiveId::reduce:
    case CollectiveId::reduce_scatterv:
    case CollectiveId::barrier:
      return;
  }
}

}  // namespace busbar
