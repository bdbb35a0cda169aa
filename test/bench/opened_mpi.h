#pragma once

#include "common/backends/mpi/mpi_backend.h"
#include "common/measure/buffer_plan.h"
#include "common/measure/verify.h"
#include "common/processes/comm.h"
#include "common/statistics/random.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <random>
#include <vector>

namespace busbar {

/// What a bench of --stat's parts measures with.
struct OpenedMpi {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Verifier> verifier;
};

/// A communicator and buffers of its own for messages of `capacity` bytes. Collective.
inline OpenedMpi open_mpi(const Comm& world, std::size_t capacity) {
  OpenedMpi opened;
  opened.backend = make_mpi_backend(world, world.size());
  opened.arena = std::make_unique<Arena>(*opened.backend, capacity, 0);
  opened.verifier =
      std::make_unique<Verifier>(*opened.backend, std::vector<RankInfo>{{world.rank(), 0, 1, "host", {}}});
  return opened;
}

/// An all_reduce of so many bytes of float.
inline Case float_sum(std::size_t nbytes, int nranks) {
  const Problem problem{nbytes / sizeof(float), sizeof(float), nranks, 0, nullptr};
  return {DType::float32, Op::sum, 0, nbytes, problem, nbytes};
}

/// The same everywhere, another in each launch. Collective.
inline Random agreed_random(const Comm& world) {
  std::uint64_t seed = std::random_device{}();
  world.broadcast(&seed, sizeof seed, 0);
  return Random(seed);
}

[[noreturn]] inline void pass_on(std::exception_ptr failure) { std::rethrow_exception(failure); }

}  // namespace busbar
