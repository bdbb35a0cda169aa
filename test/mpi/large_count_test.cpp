// What this would catch: the code for counts beyond INT_MAX, which needs too much memory to be run in full on a small
// machine, moving or reducing the wrong part. The limit is lowered instead; the calls are the same.

#include "backend_fixture.h"
#include "common/backends/mpi/library/mpi_collectives.h"

#include <catch2/catch.hpp>

using namespace busbar;
using namespace busbar::test;

namespace {

/// One call with a limit of `max_count`, on fresh data; wrong elements on this rank.
std::uint64_t wrong_elements(const Comm& comm, const Backend& backend, const Collective& c, std::size_t nbytes,
                             bool in_place, std::size_t max_count) {
  const Traffic traffic;
  const std::optional<Op> sum = c.has_op ? std::optional(Op::sum) : std::nullopt;
  const Case row = make_case(c, DType::int8, sum, comm.size() - 1, nbytes, comm.size(), traffic);
  const Operation op{&c, row.problem, row.dtype, row.op, in_place};
  const Pattern data = make_pattern(row.dtype, row.op, comm.size(), 5);
  std::vector<std::byte> send_memory(row.nbytes + 1);
  std::vector<std::byte> recv_memory(row.nbytes + 1, std::byte{kPoisonByte});
  Buffers buffers{send_memory.data(), recv_memory.data()};
  if (in_place) {
    const InPlaceOffsets at = backend.in_place_offsets(op, comm.rank());
    buffers = {recv_memory.data() + at.send, recv_memory.data() + at.recv};
  }
  fill(data, comm.rank(), 0, extents_of(c, op.problem, comm.rank()).send, buffers.send);
  const CountArrays none;
  std::vector<std::byte> copy(extents_of(c, op.problem, comm.rank()).send);
  PairMessages pair = c.id == CollectiveId::pingpong ? PairMessages(row.problem, comm.rank()) : PairMessages{};
  how_to_run(c.id)({.op = op,
                    .buffers = buffers,
                    .rank = comm.rank(),
                    .comm = MPI_COMM_WORLD,
                    .type = mpi_type(row.dtype),
                    .reduction = c.has_op ? MPI_SUM : MPI_OP_NULL,
                    .arrays = &none,
                    .copy = std::span(copy),
                    .pair = &pair,
                    .max_count = max_count});
  std::uint64_t wrong = 0;
  for (const Block& block : backend.expected(op, comm.rank())) wrong += check(data, block, buffers.recv).wrong;
  return wrong;
}

}  // namespace

TEST_CASE("Counts beyond MPI's limit move and reduce every element", "[mpi_backend][large][seven]") {
  const Comm comm = world();
  const auto backend = make_mpi_backend(comm, comm.size());
  for (CollectiveId id : kAllCollectives) {
    const Collective& c = collective(id);
    if (id == CollectiveId::hypercube && (comm.size() & (comm.size() - 1)) != 0) continue;
    if (id == CollectiveId::pingpong && comm.size() % 2 != 0) continue;
    // 4096 divides into blocks, 4099 is prime and does not; a limit of 1 leaves one element of one large type.
    for (std::size_t nbytes : {std::size_t{4096}, std::size_t{4099}}) {
      for (std::size_t max_count : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
        INFO(c.name << " " << nbytes << " B, limit " << max_count);
        CHECK(wrong_elements(comm, *backend, c, nbytes, false, max_count) == 0);
        if (c.in_place != nullptr) CHECK(wrong_elements(comm, *backend, c, nbytes, true, max_count) == 0);
      }
    }
  }
}

TEST_CASE("A reduction's note counts its calls", "[mpi_backend][large]") {
  const Problem problem{.count = (std::size_t{1} << 31) + 5, .elem_size = 1, .nranks = 4};
  CHECK(reduction_calls({&kAllReduce, problem, DType::int8, Op::sum, false}) == 9);
  CHECK(reduction_calls({&kReduceScatter, problem, DType::int8, Op::sum, false}) == 36);
  CHECK(reduction_calls({&kAllGather, problem, DType::int8, std::nullopt, false}) == 1);
}
