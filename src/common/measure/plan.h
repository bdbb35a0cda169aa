#pragma once

#include "common/backends/backend.h"
#include "common/base/config.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// One row to measure. `op` has a value if the collective reduces; root is 0 if the collective has none, and for
/// pingpong its round (pingpong_peer).
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

/// More rows than this are a mistake on the command line, not a measurement; their bookkeeping alone would be 100 MB.
inline constexpr std::size_t kMaxRows = 1'000'000;

/// What a run will do, the same on every rank: the rows of one cycle in printing order (dtype, op, root, size).
struct Plan {
  const Collective* collective = nullptr;
  std::vector<Case> cases;
  std::vector<Skip> skipped;
  std::uint64_t maxbytes = 0;  ///< -e after the memory cap [bytes]
  std::string cap_arithmetic;  ///< not empty if memory lowered -e
  std::string why_out_alone;   ///< why rows lack the collective's in-place half; empty if they have it
};

/// Whether the plan's rows can have an in-place half, regardless of --placement.
bool has_in_place(const Plan& plan);

/// The ends of the sweep as requested, before memory lowers them [bytes].
struct SizeRange {
  std::uint64_t first;
  std::uint64_t last;
};
SizeRange asked_sizes(const Config& config);

/// Whether the plan's rows have this half.
bool has_half(const Config& config, const Plan& plan, bool in_place);

/// The sizes of one sweep in rising order up to `maxbytes` [bytes]: --sizes, or minbytes .. maxbytes by step. Throws
/// Error(bad_config) for more than kMaxRows.
std::vector<std::uint64_t> sweep_sizes(const Config& config, std::uint64_t maxbytes);

/// Builds the plan for a communicator. Pure: equal inputs (also the limit: agree on it first) give equal plans on every
/// rank. `traffic` must outlive the plan. Throws Error(not_possible) if memory does not allow the first size,
/// Error(bad_config) for a root out of range, more than kMaxRows rows, or an option of another collective.
Plan make_plan(const Config& config, const Collective& collective, const Backend& backend, const Traffic& traffic,
               const Backend::MemoryLimit& limit);

/// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/): the same on every machine, as std::hash need not be.
std::uint64_t hash(std::string_view bytes);

/// A digest of everything that decides which collectives are called in which order; equal plans have equal digests.
std::uint64_t digest(const Plan& plan, const Config& config);

/// A guess at the time of one cycle [s]. Every operation takes 20 us plus its bus bytes at `assumed_busbw` [B/s];
/// filling, poisoning and comparing are passes over the message at the same speed. Good to a factor of a few: for
/// warnings.
double estimate_time_s(const Plan& plan, const Config& config, double assumed_busbw);

/// "plan: 8192 rows, about 3 h; did you mean -f 2?" for more than 100 sizes or 10 minutes, else null. Assumed busbw:
/// 5e9 for host memory, 100e9 for GPUs.
std::optional<std::string> plan_warning(const Plan& plan, const Config& config, double assumed_busbw);

/// What --dry-run prints: rows, skipped rows with reasons, memory per rank and host, time. `ranks_per_host`: the most.
std::string dry_run_text(const Plan& plan, const Config& config, const Backend::MemoryLimit& limit, int ranks_per_host,
                         double assumed_busbw);

}  // namespace busbar
