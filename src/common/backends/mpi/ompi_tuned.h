#pragma once

#include "collectives/collective.h"
#include "common/backends/backend.h"
#include "common/backends/mpi/mpi_tool_variable.h"
#include "common/backends/mpi/ompi_algorithms.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

// Writing. -----------------------------------------------------------------------------------------------------------

/// "From so many bytes on, this algorithm", for one collective on one communicator size.
struct OmpiRule {
  CollectiveId collective = CollectiveId::all_reduce;
  int comm_size = 0;
  std::uint64_t from_bytes = 0;     ///< as ompi_rule_bytes counts
  int algorithm = 0;                ///< 0: the library decides
  std::uint64_t segment_bytes = 0;  ///< 0: not segmented
};

/// A rules file for coll_tuned in the four-column form that every Open MPI reads, in any order of `rules`. Below the
/// first rule and on communicators of other sizes the library decides as before. Throws Error(not_possible) for a
/// collective without rules and for numbers that the file cannot hold, Error(internal) for two rules at one place.
std::string ompi_rules_text(std::span<const OmpiRule> rules);

// Reading, as Open MPI 4.1 reads. ------------------------------------------------------------------------------------

struct OmpiMessageRule {
  std::uint64_t from_bytes = 0;
  int algorithm = 0;
  int fan = 0;  ///< in or out
  int segment_bytes = 0;
};

struct OmpiCommRules {
  int comm_size = 0;
  std::vector<OmpiMessageRule> messages;
};

/// Indexed by the collective's number in the file; empty: no rules.
inline constexpr std::size_t kOmpiRuleCollectives = 22;
using OmpiRules = std::array<std::vector<OmpiCommRules>, kOmpiRuleCollectives>;

/// What a file means, or why Open MPI would ignore all of it (it says nothing when it does).
struct ParsedOmpiRules {
  OmpiRules rules;
  std::string why_ignored;  ///< empty: in order
};

/// Reads a file's text exactly as Open MPI 4.1 does: a stream of numbers (%li: a leading zero means octal, 0x
/// hexadecimal), whatever the lines; '#' starts a comment; any other character is skipped, so a digit in a word counts.
ParsedOmpiRules parse_ompi_rules(std::string_view text);

/// The rule that a call meets; algorithm 0 and null both leave the choice to the library. The last entry whose
/// communicator is not larger is taken, else the first (even where it is larger); then the last not larger message.
const OmpiMessageRule* find_ompi_rule(const OmpiRules& rules, int rule_id, int comm_size, std::uint64_t bytes);

/// Whether any message size of this collective has an algorithm of the file's own.
bool has_ompi_rule(const OmpiRules& rules, int rule_id, int comm_size);

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
