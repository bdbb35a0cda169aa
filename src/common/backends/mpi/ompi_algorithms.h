#pragma once

#include "common/backends/backend.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace busbar {

/// One of Open MPI's algorithms for a collective, by coll_tuned's name and number.
struct OmpiAlgorithm {
  int id = 0;  ///< 0: no algorithm forced, the library decides
  std::string_view name;
};

/// How Open MPI's component coll_tuned sees one of our collectives: the MPI call that mpi_collectives.cpp makes.
struct OmpiCollective {
  CollectiveId id;
  std::string_view tuned_name;  ///< as in coll_tuned_<name>_algorithm
  int rule_id;                  ///< in rules files
  std::span<const OmpiAlgorithm> algorithms;
};

/// Null if no single MPI collective implements ours (sendrecv, hypercube, pingpong), and if we know none of its
/// algorithms (the collectives of blocks of different sizes, barrier).
const OmpiCollective* ompi_collective(CollectiveId id);

/// Why ompi_collective and mpich_collective are null: "sendrecv is built from sends and receives".
std::string why_no_algorithms(const Collective& collective);

/// The collective with this number in rules files, or null if none of ours has it.
const OmpiCollective* ompi_collective_of_rule(int rule_id);

/// The algorithm of this name ('-' and '_' are equal) or number; "ignore", "default" and "0" are number 0. Throws
/// Error(bad_config) naming the choices and the nearest.
OmpiAlgorithm find_ompi_algorithm(const OmpiCollective& collective, std::string_view name_or_id);

/// The algorithm's name, or "algorithm 9" for a number outside our table (a newer Open MPI).
std::string ompi_algorithm_name(CollectiveId id, int algorithm);

/// A forced algorithm with its segment size.
struct OmpiChoice {
  int algorithm = 0;
  std::uint64_t segment_bytes = 0;  ///< 0: not segmented
};

/// "ring", "segmented_ring/64K".
std::string describe(CollectiveId id, const OmpiChoice& choice);

/// Why the algorithm cannot run here, or why Open MPI would silently run another, as a sentence; null if it runs. From
/// the sources of Open MPI 4.1.4 (ompi/mca/coll/base) and tried out (docs/open_mpi_algorithms.md).
std::optional<std::string> why_not(const OmpiCollective& collective, const OmpiChoice& choice, const Problem& problem);

/// The same for an operation: in place Open MPI always runs its one in-place alltoall or alltoallv
/// (coll_base_alltoall.c, coll_base_alltoallv.c).
std::optional<std::string> why_not(const OmpiChoice& choice, const Operation& op);

/// Whether Open MPI ends such a call with an error instead of falling back.
bool refuses_call(const OmpiCollective& collective, const OmpiChoice& choice, const Problem& problem);

/// The "message size" that a rules file's thresholds are compared with [bytes]: what the decision function computes
/// from the MPI call's arguments (ompi/mca/coll/tuned/coll_tuned_decision_dynamic.c).
std::uint64_t ompi_rule_bytes(CollectiveId id, const Problem& problem);

}  // namespace busbar
