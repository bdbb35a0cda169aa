#pragma once

#include "common/backends/backend.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace busbar {

// The algorithms of Open MPI and of MPICH.

/// One of a library's algorithms for a collective, by its name; `id`: its number in coll_tuned.
struct MpiAlgorithm {
  int id = 0;  ///< 0: no algorithm forced, the library decides
  std::string_view name;
};

/// How a library sees one of our collectives: the MPI call that mpi_collectives.cpp makes.
struct MpiCollective {
  CollectiveId id;
  std::string_view name;  ///< of the call: "allreduce", as in the library's variables
  std::span<const MpiAlgorithm> algorithms;
  int rule_id = -1;  ///< in Open MPI's rules files
};

/// Why ompi_collective and mpich_collective are null: "sendrecv is built from sends and receives".
std::string why_no_algorithms(const Collective& collective);

// Open MPI: as its component coll_tuned has them.
// ----------------------------------------------------------------------

/// Null if no single MPI collective implements ours (sendrecv, hypercube, pingpong), and if we know none of its
/// algorithms (the collectives of blocks of different sizes, barrier).
const MpiCollective* ompi_collective(CollectiveId id);

/// The collective with this number in rules files, or null if none of ours has it.
const MpiCollective* ompi_collective_of_rule(int rule_id);

/// The algorithm of this name ('-' and '_' are equal) or number; "ignore", "default" and "0" are number 0. Throws
/// Error(bad_config) naming the choices and the nearest.
MpiAlgorithm find_ompi_algorithm(const MpiCollective& collective, std::string_view name_or_id);

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
std::optional<std::string> why_not(const MpiCollective& collective, const OmpiChoice& choice, const Problem& problem);

/// The same for an operation: in place Open MPI always runs its one in-place alltoall or alltoallv
/// (coll_base_alltoall.c, coll_base_alltoallv.c).
std::optional<std::string> why_not(const OmpiChoice& choice, const Operation& op);

/// Whether Open MPI ends such a call with an error instead of falling back.
bool refuses_call(const MpiCollective& collective, const OmpiChoice& choice, const Problem& problem);

/// The "message size" that a rules file's thresholds are compared with [bytes]: what the decision function computes
/// from the MPI call's arguments (ompi/mca/coll/tuned/coll_tuned_decision_dynamic.c).
std::uint64_t ompi_rule_bytes(CollectiveId id, const Problem& problem);

// MPICH: control variables (MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM) that it reads at each call.
// --------------------------- Communicators of one job cannot keep their own: each puts its settings into force while
// it runs. MPICH does not report what ran. From the sources of MPICH 4.0.2 and 5.0.1 (src/mpi/coll/coll_algorithms.txt,
// maint/gen_coll.py) and tried out (docs/mpi_libraries.md).

/// Null if ompi_collective is.
const MpiCollective* mpich_collective(CollectiveId id);

/// "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM".
std::string mpich_algorithm_variable(const MpiCollective& collective);

/// The switch without which a device may choose another algorithm.
std::string mpich_device_variable(const MpiCollective& collective);

/// The algorithm of this name ('-' and '_' are equal). Throws Error(bad_config) naming the choices and the nearest.
MpiAlgorithm find_mpich_algorithm(const MpiCollective& collective, std::string_view name);

/// Why MPICH would silently run another one, as a sentence; null if it would not. `many_hosts`: there are several
/// hosts, and several ranks on one.
std::optional<std::string> mpich_why_not(const MpiAlgorithm& algorithm, const Operation& op, bool many_hosts);

/// The number of an algorithm in the variable with this description, which lists them in order; -1 if this MPICH lacks
/// it. MPICH 4.0 lists them without line ends.
int mpich_algorithm_number(const MpiCollective& collective, std::string_view description, std::string_view name);

/// `mpich.algorithm`, the setting that compare varies.
inline constexpr std::string_view kMpichAlgorithm = "mpich.algorithm";

/// What --show-algo prints: "default", "requested:ring", or "unknown" if MPICH would run another one or is not the
/// library. Local; MPI must be up. Starts MPI_T.
std::string requested_mpich_algorithm(const Operation& op, bool many_hosts);

/// An algorithm to put into force while calls run. Every rank must create the same one. Throws Error(bad_config) naming
/// the choices, Error(not_possible) if this library lacks it.
class MpichRequest {
 public:
  MpichRequest(const Collective& collective, std::string_view algorithm);
  /// In force until the result is destroyed.
  std::shared_ptr<void> put_in_force() const;

 private:
  std::string algorithm_variable_;
  std::string device_variable_;
  std::string number_;
};

}  // namespace busbar
