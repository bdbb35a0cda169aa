#include "common/backends/mpi/ompi_tuned.h"

#include "common/backends/mpi/mpi_tool_variable.h"
#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/processes/mpi_group.h"
#include "common/processes/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace busbar {
namespace {

constexpr const char* kDynamic = "coll_tuned_use_dynamic_rules";
constexpr const char* kRulesFile = "coll_tuned_dynamic_rules_filename";

std::string variable(const OmpiCollective& collective, std::string_view rest) {
  return fmt::format("coll_tuned_{}_algorithm{}", collective.tuned_name, rest);
}

bool is_on(const std::optional<std::string>& value) { return value && *value != "0" && *value != "false"; }

long long read_number(const std::string& name, long long otherwise) {
  const std::optional<std::string> text = read_mpi_variable(name);
  long long value = otherwise;
  if (text) std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

/// A component that Open MPI asks before coll_tuned. Left out: those that only wrap others or serve one rank.
std::string overtaking_component() {
  const long long tuned = read_number("coll_tuned_priority", 30);
  for (const char* component : {"hcoll", "ucc", "han", "adapt", "sm", "ml", "fca", "acoll", "xhc", "portals4"}) {
    const std::string name = fmt::format("coll_{}_", component);
    // Those of a vendor have a switch beside their priority.
    if (const auto enabled = read_mpi_variable(name + "enable"); enabled && !is_on(enabled)) continue;
    if (read_number(name + "priority", -1) > tuned) return component;
  }
  return {};
}

void read_rules_file(TunedState& state) {
  state.rules_file = read_mpi_variable(kRulesFile).value_or("");
  if (!state.dynamic || state.rules_file.empty()) return state.rules_file.clear();
  std::ifstream in(state.rules_file);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in) {
    state.rules_ignored = "it cannot be read";
    return;
  }
  ParsedOmpiRules parsed = parse_ompi_rules(text.str());
  state.rules_ignored = parsed.why_ignored;
  state.rules = std::move(parsed.rules);
}

/// A choice as words: forced or from a file; kUnknownAlgorithm where Open MPI runs another one than it was told.
std::string shown(const OmpiChoice& choice, const Operation& op) {
  return why_not(choice, op) ? std::string(kUnknownAlgorithm) : describe(op.collective->id, choice);
}

/// The number of an algorithm: from our table, else from the library's own names, which may be newer.
int resolve_algorithm(const OmpiCollective& known, const std::string& text) {
  const auto names = mpi_variable_choices(variable(known, ""));
  for (const auto& [value, name] : names) {
    if (name == text || std::to_string(value) == text) return value;
  }
  const OmpiAlgorithm found = find_ompi_algorithm(known, text);
  const bool offered =
      names.empty() || std::any_of(names.begin(), names.end(), [&](const auto& n) { return n.first == found.id; });
  if (offered) return found.id;
  throw Error(ExitCode::not_possible, fmt::format("this Open MPI has no {} algorithm {}", known.tuned_name, text));
}

/// Why nothing can be forced for this collective here; empty where it can.
std::string why_not_forced(const TunedState& state, const Collective& collective, int nranks) {
  const OmpiCollective* known = ompi_collective(collective.id);
  if (known == nullptr) {
    return why_no_algorithms(collective) + ": there is no algorithm to choose";
  }
  if (!state.known) {
    const std::string version = mpi_library_version();
    return fmt::format("{} is not Open MPI with coll_tuned{}", version,
                       version.starts_with("MPICH") ? ": vary mpich.algorithm" : "");
  }
  if (!state.overtaken_by.empty()) {
    return fmt::format("Open MPI asks its component {} before coll_tuned; start with --mca coll ^{}",
                       state.overtaken_by, state.overtaken_by);
  }
  if (!state.dynamic) {
    return fmt::format("Open MPI ignores forced algorithms without --mca {} 1, which must be set at launch", kDynamic);
  }
  if (has_ompi_rule(state.rules, known->rule_id, nranks)) {
    return fmt::format(
        "the rules file {} decides {} on {} ranks, and it would go before a forced algorithm or after it "
        "as Open MPI's version has it; start without the file",
        in_quotes(state.rules_file), known->tuned_name, nranks);
  }
  return {};
}

}  // namespace

TunedState read_tuned_state() {
  TunedState state;
  const std::string version = mpi_library_version();
  if (!version.starts_with("Open MPI")) return state;
  start_mpi_tool();
  const std::optional<std::string> dynamic = read_mpi_variable(kDynamic);
  if (!dynamic) return state;
  state.known = true;
  state.dynamic = is_on(dynamic);
  // coll_tuned_decision_dynamic.c: the order of the two was changed between 4.1 and 5.0.
  state.forced_first = std::atoi(version.c_str() + std::string_view("Open MPI ").size()) >= 5;
  state.overtaken_by = overtaking_component();
  read_rules_file(state);
  for (const CollectiveId id : kAllCollectives) {
    const OmpiCollective* known = ompi_collective(id);
    if (known == nullptr) continue;
    OmpiChoice& choice = state.forced[id];
    choice.algorithm = static_cast<int>(read_number(variable(*known, ""), 0));
    choice.segment_bytes = static_cast<std::uint64_t>(std::max(0LL, read_number(variable(*known, "_segmentsize"), 0)));
  }
  return state;
}

std::string shown_algorithm(const TunedState& state, const Operation& op) {
  const OmpiCollective* known = ompi_collective(op.collective->id);
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
    throw Error(ExitCode::bad_config,
                fmt::format("{} is {}: Open MPI would ignore every algorithm that is tried; leave it out", name,
                            in_quotes(value)));
  }
  setenv(name.c_str(), "1", 0);
}

TunedSettings::TunedSettings(const Collective& collective,
                             std::span<const std::pair<std::string, std::string>> settings, int nranks) {
  if (settings.empty()) return;
  const TunedState state = read_tuned_state();
  if (const std::string why = why_not_forced(state, collective, nranks); !why.empty()) {
    throw Error(ExitCode::not_possible, why);
  }
  const OmpiCollective& known = *ompi_collective(collective.id);
  for (const auto& [name, value] : settings) {
    if (name == "ompi.algorithm") {
      changes_.set(variable(known, ""), std::to_string(resolve_algorithm(known, value)));
    } else if (name == "ompi.segmentsize") {
      changes_.set(variable(known, "_segmentsize"), std::to_string(parse_bytes(value)));
    } else if (name.starts_with("ompi.coll_tuned_")) {
      changes_.set(name.substr(kOmpiSetting.size()), value);
    } else {
      throw Error(ExitCode::bad_config,
                  fmt::format("unknown setting {}; Open MPI's are ompi.algorithm, ompi.segmentsize and "
                              "ompi.coll_tuned_...",
                              in_quotes(name)));
    }
  }
}

}  // namespace busbar
