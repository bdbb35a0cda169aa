#include "common/backends/mpi/ompi_tuned.h"

#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/processes/mpi/mpi_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

namespace busbar {
namespace {

using Messages = std::map<std::uint64_t, OmpiRule>;
using Sizes = std::map<int, Messages>;

/// A forced chain takes its fan-out from a variable (4), a rule from the file: there, 0 would be another tree.
int fan_of(CollectiveId id, int algorithm) {
  const bool chain = (id == CollectiveId::broadcast || id == CollectiveId::reduce) && algorithm == 2;
  return chain ? 4 : 0;
}

void add(std::map<int, Sizes>& sorted, const OmpiRule& rule) {
  const MpiCollective* known = ompi_collective(rule.collective);
  const std::string_view name = collective(rule.collective).name;
  if (known == nullptr) throw_not_possible(fmt::format("Open MPI's rules files have no rules for {}", name));
  if (rule.comm_size < 1 || rule.algorithm < 0 || rule.from_bytes > LONG_MAX || rule.segment_bytes > INT_MAX) {
    throw_not_possible(
        fmt::format("a rules file cannot hold {} on {} ranks from {} bytes: algorithm {}, segments of {} bytes", name,
                    rule.comm_size, rule.from_bytes, rule.algorithm, rule.segment_bytes));
  }
  if (!sorted[known->rule_id][rule.comm_size].emplace(rule.from_bytes, rule).second) {
    throw Error(ExitCode::internal,
                fmt::format("two rules for {} on {} ranks from {} bytes", name, rule.comm_size, rule.from_bytes));
  }
}

std::string comm_entry(int comm_size, std::string_view what) { return fmt::format("{}  # {}\n", comm_size, what); }

std::string guard(int comm_size, std::string_view what) {
  return comm_entry(comm_size, what) + "1  # message rules\n0 0 0 0\n";
}

std::string messages_text(CollectiveId id, const Messages& messages) {
  const bool needs_first = messages.begin()->first != 0;
  std::string text = fmt::format("{}  # message rules: from bytes, algorithm, fan, segment bytes\n",
                                 messages.size() + (needs_first ? 1 : 0));
  if (needs_first) text += "0 0 0 0\n";
  for (const auto& [bytes, rule] : messages) {
    text += fmt::format("{} {} {} {}  # {}\n", bytes, rule.algorithm, fan_of(id, rule.algorithm), rule.segment_bytes,
                        ompi_algorithm_name(id, rule.algorithm));
  }
  return text;
}

std::string collective_text(int rule_id, const Sizes& sizes) {
  const MpiCollective& known = *ompi_collective_of_rule(rule_id);
  std::string entries;
  int count = 0;
  const auto append = [&](const std::string& entry) {
    entries += entry;
    ++count;
  };
  // Without an entry for smaller communicators Open MPI takes the first entry.
  if (sizes.begin()->first > 1) append(guard(0, "smaller communicators: the library's own choice"));
  for (auto at = sizes.begin(); at != sizes.end(); ++at) {
    append(comm_entry(at->first, "communicator size") + messages_text(known.id, at->second));
    // An entry applies up to the next.
    const auto next = std::next(at);
    if (at->first < INT_MAX && (next == sizes.end() || next->first > at->first + 1))
      append(guard(at->first + 1, "from this size on: the library's own choice"));
  }
  return fmt::format("{}  # collective: {}\n{}  # communicator sizes\n{}", rule_id, known.name, count, entries);
}

/// The numbers of the text, read with the C library's scanner, so that every oddity of %li is the same.
class Numbers {
 public:
  explicit Numbers(std::string_view text)
      : text_(text.empty() ? "\n" : text), file_(fmemopen(text_.data(), text_.size(), "r"), &std::fclose) {}

  std::optional<long> next() {
    long value = 0;
    while (file_ != nullptr) {
      const int got = std::fscanf(file_.get(), "%li", &value);
      if (got == EOF) return std::nullopt;
      if (got == 1) return value;
      if (std::fgetc(file_.get()) == '#') skip_line();
    }
    return std::nullopt;
  }

 private:
  void skip_line() {
    for (int c = 0; c != '\n' && c != EOF;) c = std::fgetc(file_.get());
  }

  std::string text_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

struct Ignored {
  std::string why;
};

/// A non-negative number; if Open MPI truncates it to an int, so does this.
long take(Numbers& numbers, std::string_view what) {
  const std::optional<long> value = numbers.next();
  if (!value) throw Ignored{fmt::format("the file ends before {}", what)};
  if (*value < 0) throw Ignored{fmt::format("{} is negative: {}", what, *value)};
  return *value;
}

int take_int(Numbers& numbers, std::string_view what) { return static_cast<int>(take(numbers, what)); }

std::vector<OmpiMessageRule> read_messages(Numbers& numbers) {
  std::vector<OmpiMessageRule> messages;
  const int count = take_int(numbers, "the number of message rules");
  for (int i = 0; i < count; ++i) {
    OmpiMessageRule& rule = messages.emplace_back();
    rule.from_bytes = static_cast<std::uint64_t>(take(numbers, "a message size"));
    rule.algorithm = take_int(numbers, "an algorithm");
    rule.fan = take_int(numbers, "a fan");
    rule.segment_bytes = take_int(numbers, "a segment size");
    if (i == 0 && rule.from_bytes != 0) throw Ignored{"the first message rule must begin at 0 bytes"};
  }
  return messages;
}

OmpiRules read_rules(Numbers& numbers) {
  OmpiRules rules;
  const long collectives = take(numbers, "the number of collectives");
  if (collectives > static_cast<long>(kOmpiRuleCollectives))
    throw Ignored{fmt::format("{} collectives, but Open MPI knows {}", collectives, kOmpiRuleCollectives)};
  for (long i = 0; i < collectives; ++i) {
    const long id = take(numbers, "a collective's number");
    if (id >= static_cast<long>(kOmpiRuleCollectives))
      throw Ignored{fmt::format("collective {}, but the last is {}", id, kOmpiRuleCollectives - 1)};
    const int sizes = take_int(numbers, "the number of communicator sizes");
    std::vector<OmpiCommRules>& entries = rules[static_cast<std::size_t>(id)];
    entries.clear();
    for (int s = 0; s < sizes; ++s) {
      const int comm_size = take_int(numbers, "a communicator size");
      entries.push_back({comm_size, read_messages(numbers)});
    }
  }
  return rules;
}

const OmpiCommRules* find_comm_rules(const OmpiRules& rules, int rule_id, int comm_size) {
  const std::vector<OmpiCommRules>& entries = rules.at(static_cast<std::size_t>(rule_id));
  if (entries.empty()) return nullptr;
  const OmpiCommRules* best = &entries.front();
  for (const OmpiCommRules& entry : entries) {
    if (entry.comm_size > comm_size) break;
    best = &entry;
  }
  return best;
}

constexpr const char* kDynamic = "coll_tuned_use_dynamic_rules";
constexpr const char* kRulesFile = "coll_tuned_dynamic_rules_filename";

std::string variable(const MpiCollective& collective, std::string_view rest) {
  return fmt::format("coll_tuned_{}_algorithm{}", collective.name, rest);
}

bool is_on(const std::optional<std::string>& value) { return value && *value != "0" && *value != "false"; }

long long read_number(const std::string& name, long long otherwise) {
  const std::optional<std::string> text = mpi_tool().read(name);
  return leading_number<long long>(text.value_or("")).value_or(otherwise);
}

/// A component that Open MPI tries before coll_tuned. Left out: those that only wrap others or serve one rank.
std::string overtaking_component() {
  const long long tuned = read_number("coll_tuned_priority", 30);
  for (const char* component : {"hcoll", "ucc", "han", "adapt", "sm", "ml", "fca", "acoll", "xhc", "portals4"}) {
    const std::string name = fmt::format("coll_{}_", component);
    // A vendor's component has a switch as well as its priority.
    if (const auto enabled = mpi_tool().read(name + "enable"); enabled && !is_on(enabled)) continue;
    if (read_number(name + "priority", -1) > tuned) return component;
  }
  return {};
}

void read_rules_file(TunedState& state) {
  state.rules_file = mpi_tool().read(kRulesFile).value_or("");
  if (!state.dynamic || state.rules_file.empty()) return state.rules_file.clear();
  std::ifstream in(state.rules_file);
  if (in) state.rules = parse_ompi_rules(std::string{std::istreambuf_iterator<char>(in), {}}).rules;
}

/// A choice as text: forced or from a file; kUnknownAlgorithm if Open MPI runs another one than requested.
std::string shown(const OmpiChoice& choice, const Operation& op) {
  return why_not(choice, op) ? std::string(kUnknownAlgorithm) : describe(op.collective->id, choice);
}

/// The number of an algorithm: from our table, else from the library's own names, which may be newer.
int resolve_algorithm(const MpiCollective& known, const std::string& text) {
  const auto names = mpi_tool().choices(variable(known, ""));
  for (const auto& [value, name] : names)
    if (name == text || std::to_string(value) == text) return value;
  const MpiAlgorithm found = find_ompi_algorithm(known, text);
  const bool offered = names.empty() || std::ranges::any_of(names, [&](const auto& n) { return n.first == found.id; });
  if (offered) return found.id;
  throw_not_possible(fmt::format("this Open MPI has no {} algorithm {}", known.name, text));
}

/// Why nothing can be forced for this collective here; empty if it can.
std::string why_not_forced(const TunedState& state, const Collective& collective, int nranks) {
  const MpiCollective* known = ompi_collective(collective.id);
  if (known == nullptr) return why_no_algorithms(collective) + ": there is no algorithm to choose";
  if (!state.known) {
    const std::string version = mpi_library_version();
    return fmt::format("{} is not Open MPI with coll_tuned{}", version,
                       version.starts_with("MPICH") ? ": vary mpich.algorithm" : "");
  }
  if (!state.overtaken_by.empty()) {
    return fmt::format("Open MPI tries its component {} before coll_tuned; start with --mca coll ^{}",
                       state.overtaken_by, state.overtaken_by);
  }
  if (!state.dynamic)
    return fmt::format("Open MPI ignores forced algorithms without --mca {} 1, which must be set at launch", kDynamic);
  if (has_ompi_rule(state.rules, known->rule_id, nranks)) {
    return fmt::format(
        "the rules file {} decides {} on {} ranks, and Open MPI's version decides whether it or a forced "
        "algorithm comes first; start without the file",
        in_quotes(state.rules_file), known->name, nranks);
  }
  return {};
}

}  // namespace

std::string ompi_rules_text(std::span<const OmpiRule> rules) {
  std::map<int, Sizes> sorted;
  for (const OmpiRule& rule : rules) add(sorted, rule);
  std::string text = fmt::format(
      "# Open MPI rules file, written by busbar {}. Use it with\n"
      "#   --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename FILE\n"
      "# Open MPI silently ignores a file that it cannot read: check its effect with `busbar fingerprint`.\n"
      "{}  # collectives\n",
      BUSBAR_VERSION, sorted.size());
  for (const auto& [rule_id, sizes] : sorted) text += collective_text(rule_id, sizes);
  return text;
}

ParsedOmpiRules parse_ompi_rules(std::string_view text) {
  ParsedOmpiRules parsed;
  Numbers numbers(text);
  try {
    parsed.rules = read_rules(numbers);
  } catch (const Ignored& ignored) {
    parsed.why_ignored = ignored.why;
  }
  return parsed;
}

const OmpiMessageRule* find_ompi_rule(const OmpiRules& rules, int rule_id, int comm_size, std::uint64_t bytes) {
  const OmpiCommRules* entry = find_comm_rules(rules, rule_id, comm_size);
  if (entry == nullptr || entry->messages.empty()) return nullptr;
  const OmpiMessageRule* best = &entry->messages.front();
  for (const OmpiMessageRule& rule : entry->messages) {
    if (rule.from_bytes > bytes) break;
    best = &rule;
  }
  return best;
}

bool has_ompi_rule(const OmpiRules& rules, int rule_id, int comm_size) {
  const OmpiCommRules* entry = find_comm_rules(rules, rule_id, comm_size);
  return entry != nullptr &&
         std::ranges::any_of(entry->messages, [](const OmpiMessageRule& rule) { return rule.algorithm != 0; });
}

TunedState read_tuned_state() {
  TunedState state;
  const std::string version = mpi_library_version();
  if (!version.starts_with("Open MPI")) return state;
  mpi_tool().start();
  const std::optional<std::string> dynamic = mpi_tool().read(kDynamic);
  if (!dynamic) return state;
  state.known = true;
  state.dynamic = is_on(dynamic);
  // coll_tuned_decision_dynamic.c: the order of the two was changed between 4.1 and 5.0.
  state.forced_first = std::atoi(version.c_str() + std::string_view("Open MPI ").size()) >= 5;
  state.overtaken_by = overtaking_component();
  read_rules_file(state);
  for (const CollectiveId id : kAllCollectives) {
    const MpiCollective* known = ompi_collective(id);
    if (known == nullptr) continue;
    OmpiChoice& choice = state.forced[id];
    choice.algorithm = static_cast<int>(read_number(variable(*known, ""), 0));
    choice.segment_bytes = static_cast<std::uint64_t>(std::max(0LL, read_number(variable(*known, "_segmentsize"), 0)));
  }
  return state;
}

std::string shown_algorithm(const TunedState& state, const Operation& op) {
  const MpiCollective* known = ompi_collective(op.collective->id);
  if (only_transfers(*op.collective)) return "-";
  if (known == nullptr) return std::string(kUnknownAlgorithm);
  if (!state.known || !state.overtaken_by.empty()) return std::string(kUnknownAlgorithm);
  if (!state.dynamic || op.problem.nranks < 2) return std::string(kDefaultAlgorithm);
  const auto forced = state.forced.find(known->id);
  const OmpiChoice choice = forced == state.forced.end() ? OmpiChoice{} : forced->second;
  const std::uint64_t bytes = ompi_rule_bytes(known->id, op.problem);
  const OmpiMessageRule* rule = find_ompi_rule(state.rules, known->rule_id, op.problem.nranks, bytes);
  const bool ruled = rule != nullptr && rule->algorithm != 0;
  if (ruled && !(state.forced_first && choice.algorithm != 0)) {
    const OmpiChoice by_rule{rule->algorithm, static_cast<std::uint64_t>(std::max(0, rule->segment_bytes))};
    return "rule:" + shown(by_rule, op);
  }
  return choice.algorithm == 0 ? std::string(kDefaultAlgorithm) : shown(choice, op);
}

void prepare_ompi_variation() {
  const std::string name = fmt::format("OMPI_MCA_{}", kDynamic);
  const char* set = std::getenv(name.c_str());
  const std::string_view value = set == nullptr ? "1" : set;
  if (value == "0" || value == "false" || value == "no" || value == "disabled") {
    throw_bad_config(
        fmt::format("{} is {}: Open MPI would ignore every algorithm set here; leave it out", name, in_quotes(value)));
  }
  setenv(name.c_str(), "1", 0);
}

TunedSettings::TunedSettings(const Collective& collective,
                             std::span<const std::pair<std::string, std::string>> settings, int nranks) {
  if (settings.empty()) return;
  const TunedState state = read_tuned_state();
  if (const std::string why = why_not_forced(state, collective, nranks); !why.empty()) throw_not_possible(why);
  const MpiCollective& known = *ompi_collective(collective.id);
  for (const auto& [name, value] : settings) {
    if (name == "ompi.algorithm") {
      changes_.set(variable(known, ""), std::to_string(resolve_algorithm(known, value)));
    } else if (name == "ompi.segmentsize") {
      changes_.set(variable(known, "_segmentsize"), std::to_string(parse_bytes(value)));
    } else if (name.starts_with("ompi.coll_tuned_")) {
      changes_.set(name.substr(kOmpiSetting.size()), value);
    } else {
      throw_bad_config(
          fmt::format("unknown setting {}; Open MPI's are ompi.algorithm, ompi.segmentsize and "
                      "ompi.coll_tuned_...",
                      in_quotes(name)));
    }
  }
}

}  // namespace busbar
