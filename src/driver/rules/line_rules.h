#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

/// Whether words stand somewhere in a text, as they are.
inline bool mentions(std::string_view text, std::string_view words) { return text.find(words) != text.npos; }

/// What a line is about: causes before what follows from them.
enum class RuleKind : std::uint8_t {
  hardware,
  unreachable,
  resource,
  config,
  refused,        ///< nobody listens there: mostly because the process has gone
  call_mismatch,  ///< NCCL says that ranks called differently
  size_mismatch,  ///< the transport got other sizes than it expected
  fallout,        ///< a GPU context that an earlier error poisoned
  victim,         ///< somebody else went away
  harmless,
  other,
  // What programs and launchers say:
  traceback,  ///< of Python begins, or goes on
  absent,     ///< `ranks` did not come to what `means` says
  stopped,    ///< ended on purpose: nobody's fault that the log tells
  host_lost,  ///< by a launcher
  ended,      ///< a process: by `code`, else by the signal that the line names
  exception,  ///< its last line, or a C++ exception's
  no_error,   ///< only looks like one
  error,      ///< anything else that calls itself an error
};

/// Whom a line is to blame on; `unset`: the peers where it names some, else the speaker.
enum class RuleBlame : std::uint8_t { unset, both_ends, speaker, nobody };

/// An entry of `rules` in configs/rules/lines.yaml, where its keys are described.
struct LineRule {
  std::string id;
  RuleKind kind = RuleKind::other;
  RuleBlame blame = RuleBlame::unset;
  std::string means;   ///< empty where the line explains itself
  std::string remedy;  ///< the text, not its name
  std::string unless;  ///< "NAME=VALUE"
  std::string shows;   ///< the name of a setting
  bool nccl_only = false;
  std::vector<std::string> examples;
};

/// Keys and values.
using LineFacts = std::map<std::string, std::string>;

/// Rules in the order in which they are tried.
class LineRules {
 public:
  /// Throws Error(bad_config) "FILE:LINE: WHAT".
  static LineRules read(const std::string& file, std::string_view text);
  LineRules(LineRules&&) noexcept;
  ~LineRules();

  /// All that match, in upper and lower case alike, in the order of the file.
  std::vector<const LineRule*> matches(std::string_view line) const;
  /// What a named group of the rule's expressions found in a line that it matches; empty: nothing.
  std::string capture(const LineRule& rule, std::string_view line, const std::string& group) const;

  // `lists` and `tells` of the file, which describes them. Their names stand in the code: one that is not there is an
  // error of the program.
  /// Whether one of a list is in the line.
  bool has(std::string_view list, std::string_view line) const;
  /// What the expressions of a list find in the line, the first of a key.
  LineFacts facts_in(std::string_view list, std::string_view line) const;
  /// Whether NCCL is known to print this: such lines do not count as unknown, so that the unknown ones show what a new
  /// version has changed.
  bool is_known(std::string_view message) const;

  const std::vector<LineRule>& all() const { return rules_; }
  /// Keys of facts that show that something went right, with what it was; in this order.
  const std::vector<std::pair<std::string, std::string>>& health() const { return health_; }

 private:
  struct Patterns;
  struct Reader;
  LineRules();

  std::vector<LineRule> rules_;
  std::vector<std::string> chatter_;
  std::vector<std::pair<std::string, std::string>> health_;
  std::unique_ptr<Patterns> patterns_;
};

/// Those of configs/rules/lines.yaml.
const LineRules& builtin_line_rules();

}  // namespace busbar
