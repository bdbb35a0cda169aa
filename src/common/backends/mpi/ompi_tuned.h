#pragma once

#include "common/backends/backend.h"
#include "common/backends/mpi/mpi_tool_variable.h"
#include "common/backends/mpi/ompi_algorithms.h"
#include "common/backends/mpi/ompi_rules.h"

#include <map>
#include <span>
#include <string>
#include <utility>

namespace busbar {

/// What decides Open MPI's algorithms on communicators that are made now.
struct TunedState {
  bool known = false;         ///< Open MPI with coll_tuned; all else is empty without
  bool dynamic = false;       ///< forced algorithms and rules files count at all
  bool forced_first = false;  ///< a forced algorithm goes before a rule (from Open MPI 5 on)
  std::string overtaken_by;   ///< a collective component that goes before coll_tuned ("hcoll"); empty: none
  std::string rules_file;     ///< in force; empty: none
  std::string rules_ignored;  ///< why Open MPI ignores the file; empty: it does not
  OmpiRules rules;
  std::map<CollectiveId, OmpiChoice> forced;  ///< algorithm 0: none
};

/// Reads it, the rules file included. Local; MPI must be up. Starts MPI_T.
TunedState read_tuned_state();

/// What --show-algo says of an operation: "ring" where forced, "rule:ring", "default", or "unknown" where Open MPI
/// would silently run another (why_not) or the library does not tell.
std::string shown_algorithm(const TunedState& state, const Operation& op);

/// To be called before MPI_Init by what varies Open MPI's algorithms in one job: turns on coll_tuned_use_dynamic_rules,
/// without which forced algorithms are ignored in silence. Changes nothing else: without forced algorithms and rules
/// file the library decides as before. Throws Error(bad_config) where the user has turned it off.
void prepare_ompi_variation();

/// Every setting that starts so is Open MPI's: "ompi.algorithm" (name or number), "ompi.segmentsize" (size), and
/// "ompi.coll_tuned_..." (any number that coll_tuned reads when a communicator is made).
inline constexpr std::string_view kOmpiSetting = "ompi.";

/// Open MPI's variables set as a variant wants them, while it lives; a communicator made meanwhile (make_mpi_backend)
/// keeps using them. Every rank must make the same one. Throws Error(bad_config) naming the choices,
/// Error(not_possible) where this library cannot.
class TunedSettings {
 public:
  TunedSettings(const Collective& collective, std::span<const std::pair<std::string, std::string>> settings,
                int nranks);

 private:
  MpiVariableChanges changes_;
};

}  // namespace busbar
