#pragma once

#include "common/backends/mpi/mpi_backend.h"
#include "common/measure/timed_loop.h"
#include "common/measure/verify.h"
#include "common/processes/mpi/library/mpi_group.h"

#include <memory>
#include <string>
#include <vector>

namespace busbar::test {

/// The processes of a runner that was started without MPI; null: MPI's. Set by its main.
inline const Comm* socket_world = nullptr;

/// All processes: MPI_COMM_WORLD as a Comm that nobody frees, or those of sockets. Collective.
inline Comm world() {
  return socket_world != nullptr ? socket_world->split(0)
                                 : Comm(std::make_unique<MpiGroup>(MPI_COMM_WORLD, MpiGroup::Owned::no));
}

/// The case that a sweep would make of `nbytes` requested bytes.
inline Case make_case(const Collective& c, DType dtype, std::optional<Op> op, int root, std::size_t nbytes, int nranks,
                      const Traffic& traffic) {
  Case made{dtype, op, root, nbytes, {}, 0};
  const std::size_t w = size_of(dtype);
  made.problem = {c.count(nbytes / w, nranks, w, &traffic), w, nranks, root, &traffic};
  made.nbytes = message_bytes(c, made.problem);
  return made;
}

/// Ops of a collective: all six, or none.
inline std::vector<std::optional<Op>> ops_of(const Collective& c) {
  if (!c.has_op) return {std::nullopt};
  return {kAllOps.begin(), kAllOps.end()};
}

inline std::vector<int> roots_of(const Collective& c, int nranks) {
  if (!c.has_root) return {0};
  std::vector<int> roots;
  if (c.id == CollectiveId::pingpong) roots.push_back(kHalves);
  for (int r = 0; r < nranks; ++r) roots.push_back(r);
  return roots;
}

/// What a collective that uses traffic is tried with: counts that grow with the distance, and a matrix with holes.
inline std::vector<Traffic> traffics_of(const Collective& c, int nranks) {
  std::vector<Traffic> traffics(1);
  if (!uses_traffic(c)) return traffics;
  Traffic& matrix = traffics.emplace_back();
  matrix.dim = nranks;
  for (int from = 0; from < nranks; ++from) {
    for (int to = 0; to < nranks; ++to)
      matrix.bytes.push_back(static_cast<std::uint64_t>((3 * from + 5 * to) % 4) * 48);
  }
  return traffics;
}

/// Every collective x dtype x op x root x placement that the backend supports, at a few sizes.
template <class Visit>
void for_every_case(Backend& backend, const std::vector<std::size_t>& sizes, const Visit& visit) {
  const int n = backend.nranks();
  for (CollectiveId id : kAllCollectives) {
    const Collective& c = collective(id);
    const std::vector<Traffic> traffics = traffics_of(c, n);
    for (DType dtype : kAllDTypes) {
      for (const std::optional<Op>& op : ops_of(c)) {
        for (int root : roots_of(c, n)) {
          for (const Traffic& traffic : traffics) {
            for (std::size_t nbytes : sizes) {
              if (traffic.from_matrix() && nbytes != sizes.back()) continue;  // the sizes are the matrix's
              const Case row = make_case(c, dtype, op, root, nbytes, n, traffic);
              const Operation operation{&c, row.problem, dtype, op, false};
              if (c.why_not != nullptr && !c.why_not(row.problem).empty()) continue;
              if (backend.why_unsupported(operation)) continue;
              visit(c, row, false);
              Operation in_place = operation;
              in_place.in_place = true;
              if (c.in_place != nullptr && !backend.why_unsupported(in_place)) visit(c, row, true);
            }
          }
        }
      }
    }
  }
}

inline std::string title(const Collective& c, const Case& row, bool in_place) {
  std::string text(c.name);
  text += " " + std::string(name(row.dtype));
  if (row.op) text += " " + std::string(name(*row.op));
  return text + " root " + std::to_string(row.root) + " " + std::to_string(row.nbytes) + " B " +
         (in_place ? "in place" : "out of place");
}

inline std::vector<RankInfo> local_ranks(const Backend& backend) {
  return {{backend.local_ranks()[0], 0, 1, "host", {}}};
}

inline void never(std::exception_ptr) {}

/// What cases gave.
struct Verified {
  std::string wrong;  ///< the first, in words
  std::int64_t cases = 0;
};

inline bool every_case(const Collective&, const Case&) { return true; }

/// Runs every case that `wanted(collective, case)` takes once, in buffers that begin `unalign` elements late, and
/// checks it. Collective. `capacity`: bytes of the buffers.
template <class Wanted>
Verified verify_once(Backend& backend, std::size_t capacity, const std::vector<std::size_t>& sizes, int unalign,
                     const Wanted& wanted) {
  const Arena arena(backend, capacity, 64);
  Verifier verifier(backend, local_ranks(backend));
  Verified verified;
  for_every_case(backend, sizes, [&](const Collective& c, const Case& row, bool in_place) {
    if (!wanted(c, row)) return;
    const BufferPlan buffer_plan(backend, arena, c, row, in_place, unalign, 4);
    const auto found = verifier.verify_once(buffer_plan, false, never);
    if (!found.empty() && verified.wrong.empty())
      verified.wrong = title(c, row, in_place) + ": " + found[0].explanation;
    ++verified.cases;
  });
  return verified;
}

/// Runs every case with roots 0 and 1 that `wanted` takes in timed loops, and counts and looks at what they leave
/// wherever repetition changes nothing. Collective. `capacity`: bytes of the buffers.
template <class Wanted>
Verified verify_timed_loops(Backend& backend, const Comm& comm, std::size_t capacity, const Wanted& wanted) {
  const Arena arena(backend, capacity, 64);
  Verifier verifier(backend, local_ranks(backend));
  Config config;
  config.iters = 5;
  Verified loops;
  for (int agg : {1, 3}) {
    config.agg_iters = agg;
    for_every_case(backend, {16384}, [&](const Collective& c, const Case& row, bool in_place) {
      if (row.root > 1 || !wanted(c, row)) return;
      const BufferPlan buffer_plan(backend, arena, c, row, in_place, 0, 4);  // no more than there are iterations
      verifier.prepare_timed(buffer_plan);
      time_operations(backend, comm, config, buffer_plan, never);
      if (!is_idempotent(backend, buffer_plan.operation())) return;
      ++loops.cases;
      const auto found = verifier.check_timed(buffer_plan);
      if (!found.empty() && loops.wrong.empty()) loops.wrong = title(c, row, in_place) + ": " + found[0].explanation;
    });
  }
  return loops;
}

}  // namespace busbar::test
