// The bug these catch: a send whose receive differs in size (a hang on real GPUs), a block at the wrong place, or a
// hypercube step that forwards what has not arrived. Ranks are simulated on host memory, so no GPU is needed to see it.

#include "common/backends/transfers.h"

#include "collectives/collective.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

using namespace busbar;

namespace {

using Element = std::uint64_t;
using Buffer = std::vector<Element>;

constexpr Element kPoison = ~Element{0};

Element element(int rank, std::size_t index) { return static_cast<Element>(rank) * 1000000 + index; }

/// Runs the planned transfers of all ranks, a step at a time: every send of a step reads before any receive writes, as
/// concurrent calls may.
std::vector<Buffer> simulate(const Collective& c, const Problem& p) {
  const Extents extents = c.extents(p);
  std::vector<Buffer> send(p.nranks, Buffer(extents.send));
  std::vector<Buffer> recv(p.nranks, Buffer(extents.recv, kPoison));
  for (int r = 0; r < p.nranks; ++r) {
    for (std::size_t i = 0; i < extents.send; ++i) send[r][i] = element(r, i);
    if (c.id != CollectiveId::hypercube) continue;
    for (std::size_t i = 0; i < p.count; ++i) recv[r][p.count * r + i] = send[r][i];
  }
  std::vector<Transfer> plan;
  for (int step = 0; step < transfer_steps(c, p); ++step) {
    std::map<std::pair<int, int>, std::deque<Buffer>> wire;
    for (int r = 0; r < p.nranks; ++r) {
      plan_transfers(c, p, r, step, plan);
      for (const Transfer& t : plan) {
        if (t.kind == Transfer::Kind::receive) continue;
        const Buffer& from = t.kind == Transfer::Kind::send ? send[r] : recv[r];
        REQUIRE(t.at + t.count <= from.size());
        wire[{r, t.peer}].emplace_back(from.begin() + t.at, from.begin() + t.at + t.count);
      }
    }
    for (int r = 0; r < p.nranks; ++r) {
      plan_transfers(c, p, r, step, plan);
      for (const Transfer& t : plan) {
        if (t.kind != Transfer::Kind::receive) continue;
        std::deque<Buffer>& queue = wire[{t.peer, r}];
        REQUIRE_FALSE(queue.empty());
        REQUIRE(queue.front().size() == t.count);
        REQUIRE(t.at + t.count <= recv[r].size());
        std::copy(queue.front().begin(), queue.front().end(), recv[r].begin() + t.at);
        queue.pop_front();
      }
    }
    for (const auto& [route, queue] : wire) CHECK(queue.empty());
  }
  return recv;
}

void check_against_meaning(const Collective& c, const Problem& p) {
  const std::vector<Buffer> recv = simulate(c, p);
  for (int r = 0; r < p.nranks; ++r) {
    CAPTURE(c.name, p.nranks, p.count, r);
    Buffer want(recv[r].size(), kPoison);
    for (const Block& b : c.expected(p, r)) {
      for (std::size_t i = 0; i < b.count; ++i) want[b.at + i] = element(b.source, b.from + i);
    }
    CHECK(recv[r] == want);
  }
}

}  // namespace

TEST_CASE("The ring shift brings every rank its left neighbour's data", "[transfers][nccl]") {
  for (int nranks : {1, 2, 3, 5, 8}) {
    check_against_meaning(kSendrecv, {.count = 33, .elem_size = 4, .nranks = nranks});
  }
}

TEST_CASE("Hypercube transfers gather everything in log2(n) steps", "[transfers][nccl]") {
  for (int nranks : {1, 2, 4, 8, 32}) {
    const Problem p{.count = 7, .elem_size = 4, .nranks = nranks};
    check_against_meaning(kHypercube, p);
  }
  CHECK(transfer_steps(kHypercube, {.nranks = 1}) == 0);
  CHECK(transfer_steps(kHypercube, {.nranks = 32}) == 5);
  CHECK(transfer_steps(kSendrecv, {.nranks = 32}) == 1);
}

TEST_CASE("alltoallv is sent from a copy where MPI_IN_PLACE cannot take it", "[transfers][mpi]") {
  Traffic equal;
  equal.spread = 0;
  const Traffic by_distance;
  CHECK(sends_a_copy_in_place(kAlltoallv, {.count = 96, .elem_size = 4, .nranks = 3, .traffic = &by_distance}));
  CHECK_FALSE(sends_a_copy_in_place(kAlltoallv, {.count = 96, .elem_size = 4, .nranks = 2, .traffic = &by_distance}));
  CHECK_FALSE(sends_a_copy_in_place(kAlltoallv, {.count = 96, .elem_size = 4, .nranks = 3, .traffic = &equal}));
  const std::size_t many = std::size_t{1} << 30;  // 3 x 2^30 do not fit an int
  CHECK(sends_a_copy_in_place(kAlltoallv, {.count = many, .elem_size = 1, .nranks = 3, .traffic = &equal}));
  CHECK_FALSE(sends_a_copy_in_place(kAlltoall, {.count = many, .elem_size = 1, .nranks = 3, .traffic = &by_distance}));
}

TEST_CASE("alltoallv transfers follow the generated traffic", "[transfers][nccl]") {
  for (double spread : {0.0, 0.5, 1.0}) {
    Traffic traffic;
    traffic.spread = spread;
    for (int nranks : {1, 2, 3, 5, 8}) {
      check_against_meaning(kAlltoallv, {.count = 64, .elem_size = 4, .nranks = nranks, .traffic = &traffic});
    }
  }
}

TEST_CASE("alltoallv transfers follow a matrix and leave out its zeros on both sides", "[transfers][nccl]") {
  const Traffic traffic = parse_traffic_matrix("0 32 64\n16 0 0\n0 48 16\n", 1.0);
  const Problem p{.count = 0, .elem_size = 4, .nranks = 3, .traffic = &traffic};
  check_against_meaning(kAlltoallv, p);

  std::vector<Transfer> plan;
  plan_transfers(kAlltoallv, p, 1, 0, plan);
  const std::vector<Transfer> want{
      {Transfer::Kind::send, 0, 0, 4}, {Transfer::Kind::receive, 0, 0, 8}, {Transfer::Kind::receive, 2, 8, 12}};
  CHECK(plan == want);
}

TEST_CASE("Pingpong's pong waits for the ping, and windows are one group", "[transfers][nccl][pingpong]") {
  Traffic traffic;
  Problem p{.count = 9, .elem_size = 4, .nranks = 4, .root = kHalves, .traffic = &traffic};
  CHECK(transfer_steps(kPingpong, p) == 2);
  check_against_meaning(kPingpong, p);
  std::vector<Transfer> plan;
  const std::vector<Transfer> first{{Transfer::Kind::send, 3, 0, 9}};
  const std::vector<Transfer> then{{Transfer::Kind::receive, 3, 0, 9}};
  plan_transfers(kPingpong, p, 1, 0, plan);
  CHECK(plan == first);
  plan_transfers(kPingpong, p, 1, 1, plan);
  CHECK(plan == then);

  traffic.window = 3;
  for (const PingpongPattern pattern : {PingpongPattern::oneway, PingpongPattern::both}) {
    traffic.pattern = pattern;
    CHECK(transfer_steps(kPingpong, p) == 1);
    for (p.root = kHalves; p.root < 3; ++p.root) check_against_meaning(kPingpong, p);
    p.root = kHalves;
    plan_transfers(kPingpong, p, 0, 0, plan);
    CHECK(plan.size() == (pattern == PingpongPattern::both ? 6 : 3));
  }
}

TEST_CASE("Blocks go to the root, from it, or to all", "[transfers]") {
  const Traffic matrix = parse_traffic_matrix("0 32 64\n16 0 0\n0 48 16\n", 1.0);
  for (const Collective* c : {&kGatherv, &kScatterv, &kAllGatherv}) {
    for (double spread : {0.0, 0.5, 1.0}) {
      Traffic traffic;
      traffic.spread = spread;
      for (int nranks : {1, 2, 3, 5, 8}) {
        for (int root : {0, nranks - 1}) {
          check_against_meaning(*c, {.count = 64, .elem_size = 4, .nranks = nranks, .root = root, .traffic = &traffic});
        }
      }
    }
    for (int root = 0; root < 3; ++root) {
      check_against_meaning(*c, {.count = 0, .elem_size = 4, .nranks = 3, .root = root, .traffic = &matrix});
    }
  }
  // Column 1 to rank 1: 8 floats of rank 0, none of its own, 12 of rank 2.
  const Problem p{.count = 0, .elem_size = 4, .nranks = 3, .root = 1, .traffic = &matrix};
  std::vector<Transfer> plan;
  plan_transfers(kGatherv, p, 1, 0, plan);
  CHECK(plan == std::vector<Transfer>{{Transfer::Kind::receive, 0, 0, 8}, {Transfer::Kind::receive, 2, 8, 12}});
  plan_transfers(kGatherv, p, 2, 0, plan);
  CHECK(plan == std::vector<Transfer>{{Transfer::Kind::send, 1, 0, 12}});
}

TEST_CASE("What NCCL before 2.28 lacks is sent in equal blocks", "[transfers][nccl]") {
  for (const Collective* c : {&kAlltoall, &kGather, &kScatter}) {
    for (int nranks : {1, 2, 3, 5, 8}) {
      for (int root : {0, nranks - 1}) {
        check_against_meaning(*c, {.count = 7, .elem_size = 4, .nranks = nranks, .root = root});
      }
    }
  }
}

TEST_CASE("Offsets beyond 32 bits survive", "[transfers][nccl]") {
  const Problem p{.count = std::size_t{1} << 33, .elem_size = 1, .nranks = 8};
  std::vector<Transfer> plan;
  plan_transfers(kHypercube, p, 7, 1, plan);
  const std::vector<Transfer> want{{Transfer::Kind::forward, 5, std::size_t{6} << 33, std::size_t{2} << 33},
                                   {Transfer::Kind::receive, 5, std::size_t{4} << 33, std::size_t{2} << 33}};
  CHECK(plan == want);
}

TEST_CASE("A size of nothing makes no transfers", "[transfers][nccl]") {
  std::vector<Transfer> plan{{}};
  for (const Collective* c : {&kSendrecv, &kHypercube}) {
    plan_transfers(*c, {.count = 0, .nranks = 4}, 1, 0, plan);
    CHECK(plan.empty());
  }
}

TEST_CASE("Exactly the collectives that NCCL lacks are made of transfers, or of others", "[transfers][nccl]") {
  const std::set<const Collective*> of_transfers{&kSendrecv, &kAlltoallv, &kHypercube,
                                                 &kGatherv,  &kScatterv,  &kPingpong};
  for (CollectiveId id : kAllCollectives) {
    const Collective& c = collective(id);
    INFO(c.name);
    CHECK(made_of_transfers(c) == of_transfers.contains(&c));
    const Collective* const called = &c == &kAllGatherv ? &kBroadcast : &c == &kReduceScatterv ? &kReduce : nullptr;
    CHECK(called_per_block(c) == called);
  }
}
