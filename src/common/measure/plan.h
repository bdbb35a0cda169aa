#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/backends/backend.h"
#include "common/base/config.h"

namespace busbar {

/// One row to measure. `op` has a value where the collective reduces; root is 0 where the collective has none.
struct Case {
  DType dtype = DType::float32;
  std::optional<Op> op;
  int root = 0;
  std::uint64_t requested_bytes = 0;  ///< S of the contract
  Problem problem;
  std::size_t nbytes = 0;  ///< the size column
};

/// Rows that were left out, and why: one entry per (dtype, op, root), all sizes of it.
struct Skip {
  DType dtype = DType::float32;
  std::optional<Op> op;
  int root = 0;
  std::string reason;
};

/// What a run will do, the same on every rank: the rows of one cycle in printing order (dtype, op, root, size).
struct Plan {
  const Collective* collective = nullptr;
  std::vector<Case> cases;
  std::vector<Skip> skipped;
  std::uint64_t maxbytes = 0;   ///< -e after the memory cap [bytes]
  std::string cap_arithmetic;   ///< not empty when memory lowered -e
};

/// The sizes of one sweep in rising order [bytes]: --sizes, or minbytes .. maxbytes by step. Never loops for ever.
std::vector<std::uint64_t> sweep_sizes(const Config& config, std::uint64_t maxbytes);

/// Builds the plan for a communicator. Pure: equal inputs give equal plans on every rank. Throws Error(not_possible) when
/// memory does not allow the first size, Error(bad_config) for a root out of range.
Plan make_plan(const Config& config, const Collective& collective, const Backend& backend, const Traffic& traffic,
               const Backend::MemoryLimit& limit);

/// A digest of everything that decides which collectives are called in which order; equal plans have equal digests.
std::uint64_t digest(const Plan& plan, const Config& config);

}  // namespace busbar
