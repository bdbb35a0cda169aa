// Would catch: an algorithm asked of MPICH that does not reach the calls, stays behind for other communicators, gives
// wrong data, or is shown where it is not asked for.

#include "backend_fixture.h"
#include "common/backends/mpi/mpi_algorithms.h"
#include "common/backends/mpi/mpi_backend.h"
#include "common/base/error.h"
#include "common/processes/mpi/mpi_session.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace busbar;
using namespace busbar::test;

namespace {

/// Nothing here applies to another MPI library; there all cases pass empty.
bool is_mpich() { return mpi_library_version().starts_with("MPICH"); }

/// Whether this version of the library has the algorithm.
bool has(const Collective& c, std::string_view algorithm) {
  try {
    const MpichRequest request(c, algorithm);
    return true;
  } catch (const Error& e) {
    return e.code() != ExitCode::not_possible;
  }
}

/// What of the algorithm's cases went wrong, over sizes, roots and placements; empty: nothing.
std::string run_cases(const Comm& comm, const Collective& c, const MpiAlgorithm& algorithm, int& ran) {
  const auto backend = make_mpi_backend(comm, comm.size(), MpichRequest(c, algorithm.name));
  const Arena arena(*backend, 1 << 18, 64);
  Verifier verifier(*backend, local_ranks(*backend));
  const Traffic traffic;
  for (const std::size_t nbytes : {std::size_t{0}, std::size_t{4}, std::size_t{5000}, std::size_t{1} << 18}) {
    for (const int root : roots_of(c, comm.size())) {
      if (root != 0 && root != comm.size() - 1) continue;
      const std::optional<Op> op = c.has_op ? std::optional(Op::sum) : std::nullopt;
      const Case row = make_case(c, DType::float32, op, root, nbytes, comm.size(), traffic);
      for (const bool in_place : {false, true}) {
        if (in_place && c.in_place == nullptr) continue;
        const Operation operation{&c, row.problem, DType::float32, op, in_place};
        const std::string title =
            fmt::format("{} {} of {} root {}{}", c.name, algorithm.name, nbytes, root, in_place ? " in place" : "");
        const bool replaced = mpich_why_not(algorithm, operation, false).has_value();
        const std::string expected = comm.size() == 1 ? "default"
                                     : replaced       ? "unknown"
                                                      : fmt::format("requested:{}", algorithm.name);
        const auto in_force = backend->settings_in_force();
        if (const std::string shown = backend->observe_end(operation).algorithm; shown != expected) {
          return fmt::format("{}: shown as {}, not {}", title, shown, expected);
        }
        const BufferPlan buffer_plan(*backend, arena, c, row, in_place, 0, 4);
        const auto wrong = verifier.verify_once(buffer_plan, false, never);
        if (!wrong.empty()) return title + ": " + wrong[0].explanation;
        if (!replaced) ++ran;
      }
    }
  }
  return {};
}

}  // namespace

TEST_CASE("Every algorithm of this MPICH gives right data at every size, root and placement",
          "[mpich_algorithms][seven]") {
  if (!is_mpich()) return;
  const Comm comm = world();
  int ran = 0;
  for (const CollectiveId id : kAllCollectives) {
    const MpiCollective* known = mpich_collective(id);
    if (known == nullptr) continue;
    for (const MpiAlgorithm& algorithm : known->algorithms) {
      if (!has(collective(id), algorithm.name)) continue;
      CHECK(run_cases(comm, collective(id), algorithm, ran) == "");
    }
  }
  CHECK((ran > 0 || comm.size() == 1));
}

TEST_CASE("An algorithm is in force while its communicator runs and not a call longer", "[mpich_algorithms]") {
  if (!is_mpich()) return;
  const Comm comm = world();
  const Operation op{&kAllGather, {1000, 4, comm.size(), 0, nullptr}, DType::float32, std::nullopt, false};
  const auto usual = make_mpi_backend(comm, comm.size());
  const auto ring = make_mpi_backend(comm, comm.size(), MpichRequest(kAllGather, "ring"));
  CHECK(usual->observe_end(op).algorithm == "default");
  CHECK(usual->settings_in_force() == nullptr);
  {
    const auto in_force = ring->settings_in_force();
    CHECK(ring->observe_end(op).algorithm == (comm.size() == 1 ? "default" : "requested:ring"));
    CHECK(mpi_tool().read("MPIR_CVAR_ALLGATHER_DEVICE_COLLECTIVE") == "0");
  }
  CHECK(usual->observe_end(op).algorithm == "default");
  CHECK(mpi_tool().read("MPIR_CVAR_ALLGATHER_DEVICE_COLLECTIVE") == "1");
  const Operation without{&kSendrecv, {1000, 4, comm.size(), 0, nullptr}, DType::float32, std::nullopt, false};
  CHECK(usual->observe_end(without).algorithm == "-");
}

TEST_CASE("MPICH asks for the algorithm at each call: told not to fall back, it refuses what cannot run",
          "[mpich_algorithms]") {
  if (!is_mpich()) return;
  const Comm comm = world();
  if (comm.size() != 3) return;  // recursive doubling needs a power of two
  const auto backend = make_mpi_backend(comm, comm.size(), MpichRequest(kAllGather, "recursive_doubling"));
  std::vector<float> send(8, 1), recv(24);
  const Operation op{&kAllGather, {8, 4, comm.size(), 0, nullptr}, DType::float32, std::nullopt, false};
  const std::vector<Buffers> buffers{{send.data(), recv.data()}};
  MpiVariableChanges strict;
  strict.set("MPIR_CVAR_COLLECTIVE_FALLBACK", "0");
  CHECK_NOTHROW(backend->enqueue(0, op, buffers));
  const auto in_force = backend->settings_in_force();
  CHECK_THROWS_AS(backend->enqueue(0, op, buffers), Error);
}

TEST_CASE("What cannot be asked of this library is refused with its name", "[mpich_algorithms]") {
  const auto refusal = [](const Collective& c, std::string_view algorithm) -> std::string {
    try {
      const MpichRequest request(c, algorithm);
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  };
  CHECK(refusal(kSendrecv, "ring").find("no algorithm to choose") != std::string::npos);
  const std::string said = refusal(kAllGather, "rings");
  CHECK(said.find(is_mpich() ? "did you mean ring?" : "it is not MPICH") != std::string::npos);
}
