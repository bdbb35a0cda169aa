#pragma once

#include "common/backends/backend.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace busbar {

// MPICH's algorithms: control variables (MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM) that MPICH reads at each call.
// Communicators of one job cannot keep their own: each puts its settings into force while it runs. MPICH does not
// report what ran. From the sources of MPICH 4.0.2 and 5.0.1 (src/mpi/coll/coll_algorithms.txt, maint/gen_coll.py) and
// tried out (docs/mpi_libraries.md).

struct MpichAlgorithm {
  std::string_view name;
};

/// How MPICH sees one of our collectives: the MPI call that mpi_collectives.cpp makes.
struct MpichCollective {
  CollectiveId id;
  std::string_view name;  ///< "ALLREDUCE", as in its variables
  std::span<const MpichAlgorithm> algorithms;
};

/// Null if ompi_collective is.
const MpichCollective* mpich_collective(CollectiveId id);

/// "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM".
std::string mpich_algorithm_variable(const MpichCollective& collective);

/// The switch without which a device may choose another algorithm.
std::string mpich_device_variable(const MpichCollective& collective);

/// The algorithm of this name ('-' and '_' are equal). Throws Error(bad_config) naming the choices and the nearest.
MpichAlgorithm find_mpich_algorithm(const MpichCollective& collective, std::string_view name);

/// Why MPICH would silently run another one, as a sentence; null if it would not. `many_hosts`: there are several
/// hosts, and several ranks on one.
std::optional<std::string> mpich_why_not(const MpichAlgorithm& algorithm, const Operation& op, bool many_hosts);

/// The number of an algorithm in the variable with this description, which lists them in order; -1 if this MPICH lacks
/// it. MPICH 4.0 lists them without line ends.
int mpich_algorithm_number(const MpichCollective& collective, std::string_view description, std::string_view name);

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
