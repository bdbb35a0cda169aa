#pragma once

#include "common/backends/backend.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace busbar {

/// One of Open MPI's own algorithms for a collective, by the name and number that coll_tuned knows it by.
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

/// Null where no single MPI collective stands behind ours (sendrecv, hypercube, pingpong), and where none of its
/// algorithms is known here (the collectives of blocks of different sizes, barrier).
const OmpiCollective* ompi_collective(CollectiveId id);

/// Why ompi_collective and mpich_collective are null: "sendrecv is made of sends and receives".
std::string why_no_algorithms(const Collective& collective);

/// The collective of a rules file's number, or null where none of ours has it.
const OmpiCollective* ompi_collective_of_rule(int rule_id);

/// The algorithm of this name ('-' and '_' alike) or number; "ignore", "default" and "0" are number 0. Throws
/// Error(bad_config) naming the choices and the nearest.
OmpiAlgorithm find_ompi_algorithm(const OmpiCollective& collective, std::string_view name_or_id);

/// The algorithm's name, or "algorithm 9" for a number that is not in our table (a newer Open MPI).
std::string ompi_algorithm_name(CollectiveId id, int algorithm);

/// A forced algorithm with its segment size.
struct OmpiChoice {
  int algorithm = 0;
  std::uint64_t segment_bytes = 0;  ///< 0: not segmented
};

/// "ring", "segmented_ring/64K".
std::string describe(CollectiveId id, const OmpiChoice& choice);

/// Why the algorithm cannot run here, or would silently be another one (Open MPI falls back by itself), in a sentence;
/// nothing where it runs. From the sources of Open MPI 4.1.4
/// (ompi/mca/coll/base) and tried out (docs/open_mpi_algorithms.md).
std::optional<std::string> why_not(const OmpiCollective& collective, const OmpiChoice& choice, const Problem& problem);

/// The same of an operation: in place Open MPI runs one alltoall and one alltoallv of its own, whatever is chosen
/// (coll_base_alltoall.c, coll_base_alltoallv.c).
std::optional<std::string> why_not(const OmpiChoice& choice, const Operation& op);

/// Whether Open MPI ends such a call with an error, where elsewhere it falls back.
bool refuses_call(const OmpiCollective& collective, const OmpiChoice& choice, const Problem& problem);

/// The "message size" that a rules file's thresholds are compared with [bytes]: what the decision function computes
/// from the MPI call's arguments (ompi/mca/coll/tuned/coll_tuned_decision_dynamic.c).
std::uint64_t ompi_rule_bytes(CollectiveId id, const Problem& problem);

}  // namespace busbar
