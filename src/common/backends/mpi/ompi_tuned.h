#pragma once

#include "collectives/collective.h"
#include "common/backends/backend.h"
#include "common/backends/mpi/mpi_algorithms.h"
#include "common/backends/mpi/mpi_backend.h"

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

/// "From so many bytes on, this algorithm", for one collective and one communicator size.
struct OmpiRule {
  CollectiveId collective = CollectiveId::all_reduce;
  int comm_size = 0;
  std::uint64_t from_bytes = 0;     ///< as ompi_rule_bytes counts
  int algorithm = 0;                ///< 0: the library decides
  std::uint64_t segment_bytes = 0;  ///< 0: not segmented
};

/// A rules file for coll_tuned in the four-column form that every Open MPI reads, from `rules` in any order. Below the
/// first rule and on communicators of other sizes the library decides as before. Throws Error(not_possible) for a
/// collective without rules and for numbers that the file cannot hold, Error(internal) for two rules with one
/// threshold.
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

/// What a file means, or why Open MPI would silently ignore all of it.
struct ParsedOmpiRules {
  OmpiRules rules;
  std::string why_ignored;  ///< empty: it does not
};

/// Reads a file's text exactly as Open MPI 4.1 does: a stream of numbers (%li: a leading zero means octal, 0x
/// hexadecimal), whatever the lines; '#' starts a comment; any other character is skipped, so a digit in a word counts.
ParsedOmpiRules parse_ompi_rules(std::string_view text);

/// The rule that applies to a call; algorithm 0 and null both leave the choice to the library. The last entry whose
/// communicator is not larger applies, else the first (even if larger); then the last message size that is not larger.
const OmpiMessageRule* find_ompi_rule(const OmpiRules& rules, int rule_id, int comm_size, std::uint64_t bytes);

/// Whether the file sets an algorithm for any message size of this collective.
bool has_ompi_rule(const OmpiRules& rules, int rule_id, int comm_size);

/// What decides Open MPI's algorithms on communicators created now.
struct TunedState {
  bool known = false;         ///< Open MPI with coll_tuned; if false, all else is empty
  bool dynamic = false;       ///< forced algorithms and rules files have an effect
  bool forced_first = false;  ///< a forced algorithm overrides a rule (from Open MPI 5 on)
  std::string overtaken_by;   ///< a collective component tried before coll_tuned ("hcoll"); empty: none
  std::string rules_file;     ///< in force; empty: none
  OmpiRules rules;
  std::map<CollectiveId, OmpiChoice> forced;  ///< algorithm 0: none
};

/// Reads it, the rules file included. Local; MPI must be up. Starts MPI_T.
TunedState read_tuned_state();

/// What --show-algo prints for an operation: "ring" if forced, "rule:ring", "default", or "unknown" if Open MPI would
/// silently run another (why_not) or the library does not report it.
std::string shown_algorithm(const TunedState& state, const Operation& op);

/// Call this before MPI_Init to vary Open MPI's algorithms in one job: it turns on coll_tuned_use_dynamic_rules,
/// without which Open MPI silently ignores forced algorithms. Changes nothing else: without forced algorithms and rules
/// file the library decides as before. Throws Error(bad_config) if the user has turned it off.
void prepare_ompi_variation();

/// The prefix of Open MPI's settings: "ompi.algorithm" (name or number), "ompi.segmentsize" (size), and
/// "ompi.coll_tuned_..." (any number that coll_tuned reads when a communicator is created).
inline constexpr std::string_view kOmpiSetting = "ompi.";

/// Sets Open MPI's variables for a variant while it lives; a communicator created meanwhile (make_mpi_backend) keeps
/// using them. Every rank must create the same one. Throws Error(bad_config) naming the choices, Error(not_possible) if
/// this library cannot.
class TunedSettings {
 public:
  TunedSettings(const Collective& collective, std::span<const std::pair<std::string, std::string>> settings,
                int nranks);

 private:
  MpiVariableChanges changes_;
};

}  // namespace busbar
