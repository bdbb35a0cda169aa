#pragma once

#include "common/base/text.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

/// Whether words are somewhere in a string, unchanged.
inline bool mentions(std::string_view text, std::string_view words) { return text.find(words) != text.npos; }

/// What a line is about: causes before what follows from them.
enum class RuleKind : std::uint8_t {
  hardware,
  unreachable,
  resource,
  config,
  refused,        ///< nobody listens there: usually the process has gone
  call_mismatch,  ///< NCCL reports that ranks called differently
  size_mismatch,  ///< the transport got other sizes than it expected
  fallout,        ///< a GPU context that an earlier error poisoned
  victim,         ///< a peer went away
  harmless,
  other,
  // What programs and launchers say:
  traceback,  ///< of Python begins, or continues
  absent,     ///< `ranks` did not come to what `means` says, at the start
  late,       ///< the same of what comes later
  stopped,    ///< ended on purpose: the log names nobody at fault
  host_lost,  ///< by a launcher
  stalled,    ///< a process or CPU is there but makes no progress
  ended,      ///< a process: by `code`, else by the signal that the line names; `number`: the code, or minus the signal
  exception,  ///< its last line, or a C++ exception's
  no_error,   ///< only looks like one
  healthy,    ///< shows that something works
  error,      ///< anything else that calls itself an error
  // What no rule is for:
  message,      ///< of any of the kinds before `traceback`
  fingerprint,  ///< what `ranks` runs: `number` is the sequence number, `name` the operation and its tensors
};

/// Whom a line blames; `unset`: the peers if it names some, else the writer; `named`: whom the groups name.
enum class RuleBlame : std::uint8_t { unset, both_ends, writer, nobody, named };

/// Where a line counts; `start`: only if no communicator of the ranks that log it was completed; `unexplained`: only in
/// a log that no other rule explains.
enum class RuleWhere : std::uint8_t { everywhere, nccl, start, help, unexplained };

/// An entry of `rules` in configs/rules/lines/*.yaml; general.yaml describes its keys.
struct LineRule {
  std::string id;
  std::string program;  ///< whose line it is
  int priority = 0;     ///< the highest of those that match decides
  RuleKind kind = RuleKind::other;
  RuleBlame blame = RuleBlame::unset;
  std::string means;   ///< empty if the line explains itself
  std::string remedy;  ///< the text, not its name
  std::string unless;  ///< "NAME=VALUE"
  std::string shows;   ///< the name of a setting
  std::string after;   ///< the id of a rule: counts only within kReachOfRule lines of one of its lines
  RuleWhere where = RuleWhere::everywhere;
  std::string versions, source;
  std::vector<std::string> examples, not_examples;
};

inline constexpr int kReachOfRule = 20;

/// Keys and values.
using LineFacts = std::map<std::string, std::string>;

/// The first entry of a list that a line fits, and the parts of the line that the groups of all such entries name, the
/// first of each name. They point into the line.
struct LineShape {
  std::string_view key;  ///< empty: it fits none
  std::map<std::string_view, std::string_view> parts;

  /// Empty if there is none.
  std::string_view text(std::string_view name) const {
    const auto found = parts.find(name);
    return found == parts.end() ? std::string_view{} : found->second;
  }
  /// -1 if there is none, or it is no number.
  template <class Number = int>
  Number number(std::string_view name) const {
    return number_of<Number>(text(name)).value_or(-1);
  }
};

/// A file of rules. A site's own can only add findings: its rules come after all but the most general of
/// ours, and none of them calls a line harmless.
struct RuleFile {
  std::string name;
  std::string_view text;
  bool of_site = false;
};

/// Rules in the order in which they are tried: by priority, then as the files have them.
class LineRules {
 public:
  /// Throws Error(bad_config) "FILE:LINE: WHAT".
  static LineRules read(std::span<const RuleFile> files);
  LineRules(LineRules&&) noexcept;
  ~LineRules();

  /// Whether a program's line needs a closer check: it may match one of `signs`, or a rule that says more than that
  /// nothing is wrong. Reads each byte once.
  bool may_match(std::string_view line) const;
  /// All that match, in upper and lower case alike, the one that decides first; of those that only count in whole help
  /// texts or in unexplained logs, if `only` says so.
  std::vector<const LineRule*> matches(std::string_view line, RuleWhere only = RuleWhere::everywhere) const;
  /// What the named groups of the rule's expressions found in a line that it matches.
  LineFacts captures(const LineRule& rule, std::string_view line) const;

  // `lists` and `shapes` of the file, which describes them. The code has their names: one that is missing is an
  // error of the program.
  /// Whether one of a list is in the line.
  bool has(std::string_view list, std::string_view line) const;
  /// The line with something instead of all that a list finds in it.
  std::string without(std::string_view list, std::string_view line, std::string_view instead = "") const;
  /// What the expressions of a list find in the line, the first of a key.
  LineFacts facts_in(std::string_view list, std::string_view line) const;
  LineShape shape_in(std::string_view list, std::string_view line) const;
  /// Whether NCCL is known to print this: such lines do not count as unknown, so that the unknown ones show what a new
  /// version has changed.
  bool is_known(std::string_view message) const;

  const std::vector<LineRule>& all() const { return rules_; }
  using FactWords = std::vector<std::pair<std::string, std::string>>;
  /// Keys of facts that show what went right, and what that was; in this order. `early_health`: before the ranks met.
  const FactWords& health() const { return health_; }
  const FactWords& early_health() const { return early_health_; }

 private:
  struct Patterns;
  struct Reader;
  LineRules();

  std::vector<LineRule> rules_;
  FactWords health_, early_health_;
  std::unique_ptr<Patterns> patterns_;
};

/// What kinds are called in the files.
std::string_view name_of(RuleKind kind);

/// Those of configs/rules/lines/*.yaml, and of add_site_rules().
const LineRules& builtin_line_rules();

/// Reads a site's own rules too, before anything asks for rules. Throws Error(bad_config) "FILE:LINE: WHAT".
void add_site_rules(const std::string& path);

}  // namespace busbar
