// What these would catch: a collective handed to Gloo with the wrong buffer, offset, root, type or reduction; a
// reduce_scatter that works in another call's buffer, or whose ranks meet in different objects; a communicator whose
// end breaks a peer's call.

#include "common/backends/gloo/gloo_backend.h"

#include "backend_fixture.h"
#include "common/base/error.h"

#include <catch2/catch.hpp>

#include <climits>
#include <cstring>
#include <memory>

using namespace busbar;
using namespace busbar::test;

namespace {

constexpr std::size_t kCapacity = 1 << 16;

std::unique_ptr<Backend> gloo_on(const Comm& comm, GlooAlgorithm all_reduce = GlooAlgorithm::unspecified) {
  return make_gloo_backend(load_gloo(BUSBAR_GLOO_LIBRARY), comm, comm, comm.size(), all_reduce);
}

Verified verify_all(Backend& backend, const std::vector<std::size_t>& sizes, int unalign = 0) {
  return verify_once(backend, kCapacity, sizes, unalign, every_case);
}

/// The same of all_reduce alone.
std::string wrong_all_reduce(Backend& backend, const std::vector<std::size_t>& sizes) {
  return verify_once(backend, kCapacity, sizes, 0,
                     [](const Collective& c, const Case&) { return c.id == CollectiveId::all_reduce; })
      .wrong;
}

}  // namespace

TEST_CASE("Gloo: every collective, dtype, op, root and placement gives the data that its definition says", "[gloo]") {
  const Comm comm = world();
  const auto backend = gloo_on(comm);
  const Verified outcome = verify_all(*backend, {0, 8, 1000, 16384});
  CHECK(outcome.wrong == "");
  CHECK(outcome.cases > 1000);
  // Whatever one rank saw decides for all: a rank-local REQUIRE would leave the others waiting.
  REQUIRE(comm.sum(std::int64_t{outcome.wrong.empty() ? 0 : 1}) == 0);
}

TEST_CASE("Gloo: both algorithms of all_reduce compute it, and each is shown by its name", "[gloo]") {
  const Comm comm = world();
  for (const auto& [algorithm, shown] :
       {std::pair(GlooAlgorithm::ring, "ring"), std::pair(GlooAlgorithm::bcube, "bcube")}) {
    INFO(shown);
    const auto backend = gloo_on(comm, algorithm);
    CHECK(wrong_all_reduce(*backend, {8, 1000, 65536}) == "");
    const Problem problem{.count = 4, .elem_size = 4, .nranks = comm.size()};
    CHECK(backend->observe_end({&kAllReduce, problem, DType::float32, Op::sum, false}).algorithm == shown);
    CHECK(backend->observe_end({&kReduceScatter, problem, DType::float32, Op::sum, false}).algorithm ==
          "halving_doubling");
  }
}

TEST_CASE("Gloo: unaligned buffers give the same data", "[gloo]") {
  const Comm comm = world();
  const auto backend = gloo_on(comm);
  CHECK(verify_all(*backend, {1000}, 3).wrong == "");
}

TEST_CASE("Gloo: a timed loop leaves verifiable buffers wherever repetition changes nothing", "[gloo]") {
  const Comm comm = world();
  const auto backend = gloo_on(comm);
  const Verified loops = verify_timed_loops(*backend, comm, kCapacity, [](const Collective&, const Case& row) {
    return row.dtype == DType::int8 || row.dtype == DType::float32;
  });
  CHECK(loops.wrong == "");
  CHECK(loops.cases > 40);
}

TEST_CASE("Gloo: reduce_scatter in place is right in every buffer that a row walks through", "[gloo][seven]") {
  const Comm comm = world();
  const auto backend = gloo_on(comm);
  const Traffic traffic;
  const Case row = make_case(kReduceScatter, DType::int32, Op::sum, 0, 4096, comm.size(), traffic);
  if (backend->why_unsupported({&kReduceScatter, row.problem, row.dtype, row.op, true})) return;
  Verifier verifier(*backend, local_ranks(*backend));
  Config config;
  config.iters = 20;
  for (const std::size_t slots : {1, 8, 3}) {
    INFO(slots);
    const Arena arena(*backend, kCapacity, 64);  // another one each time, perhaps at the old address
    const BufferPlan buffer_plan(*backend, arena, kReduceScatter, row, true, 0, slots);
    verifier.prepare_timed(buffer_plan);  // neutral data: they stay as they are
    const auto* first = static_cast<const std::byte*>(buffer_plan.buffers(0, 0).recv);
    const std::vector<std::byte> before(first, first + row.nbytes * buffer_plan.slots());
    time_operations(*backend, comm, config, buffer_plan, never);
    CHECK(std::memcmp(before.data(), first, before.size()) == 0);
    CHECK(verifier.verify_once(buffer_plan, false, never).empty());
  }
}

TEST_CASE("Gloo: a communicator that ends leaves the calls of others alone", "[gloo][seven]") {
  const Comm comm = world();
  const auto stays = gloo_on(comm);
  for (int round = 0; round < 3; ++round) {
    const auto goes = gloo_on(comm);
    CHECK(wrong_all_reduce(*goes, {8}) == "");
  }
  CHECK(wrong_all_reduce(*stays, {8}) == "");
}

TEST_CASE("Gloo: groups of the world have communicators of their own", "[gloo]") {
  const Comm comm = world();
  const Comm half = comm.split(comm.rank() % 2);
  const auto backend = make_gloo_backend(load_gloo(BUSBAR_GLOO_LIBRARY), comm, half, comm.size());
  CHECK(backend->nranks() == half.size());
  CHECK(verify_all(*backend, {1000}).wrong == "");
}

TEST_CASE("Gloo: what it lacks is refused with a reason", "[gloo]") {
  const Comm comm = world();
  const auto backend = gloo_on(comm);
  const Problem problem{.count = 4, .elem_size = 4, .nranks = comm.size()};
  CHECK(backend->why_unsupported({&kAllReduce, problem, DType::float32, Op::avg, false}).value() ==
        "Gloo has no average operation");
  CHECK(backend->why_unsupported({&kAllReduce, problem, DType::float32, Op::mulsum, false}).value() ==
        "Gloo has no pre-multiplied sum operation");
  CHECK_FALSE(backend->why_unsupported({&kAllReduce, problem, DType::f8e4m3, Op::sum, false}));
  for (const Collective* c : {&kAlltoall, &kAlltoallv, &kSendrecv}) {
    CHECK_FALSE(backend->why_unsupported({c, problem, DType::float32, std::nullopt, false}));
    CHECK_THAT(backend->why_unsupported({c, problem, DType::float32, std::nullopt, true}).value_or(""),
               Catch::EndsWith("in place"));
  }
  const Problem large{.count = std::size_t{INT_MAX} / 4 + 1, .elem_size = 4, .nranks = comm.size()};
  const bool power_of_two = comm.size() != 3 && comm.size() != 7;
  CHECK_THAT(backend->why_unsupported({&kReduceScatter, large, DType::float32, Op::sum, false}).value(),
             Catch::Contains(power_of_two ? "counts bytes in an int: at most 2147483647" : "it needs a power of 2"));
  CHECK(backend->memory_limit(kReduceScatter).bytes_per_rank <= std::size_t{2} * INT_MAX);
}
