#include "common/backends/mpi/ompi_rules.h"

#include "common/backends/mpi/ompi_algorithms.h"
#include "common/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <map>
#include <memory>

namespace busbar {
namespace {

using Messages = std::map<std::uint64_t, OmpiRule>;
using Sizes = std::map<int, Messages>;

/// A forced chain takes its fan-out from a variable (4), a rule from the file: 0 there would be another tree.
int fan_of(CollectiveId id, int algorithm) {
  const bool chain = (id == CollectiveId::broadcast || id == CollectiveId::reduce) && algorithm == 2;
  return chain ? 4 : 0;
}

void add(std::map<int, Sizes>& sorted, const OmpiRule& rule) {
  const OmpiCollective* known = ompi_collective(rule.collective);
  const std::string_view name = collective(rule.collective).name;
  if (known == nullptr) {
    throw Error(ExitCode::not_possible, fmt::format("Open MPI's rules files know no {}", name));
  }
  if (rule.comm_size < 1 || rule.algorithm < 0 || rule.from_bytes > LONG_MAX || rule.segment_bytes > INT_MAX) {
    throw Error(ExitCode::not_possible,
                fmt::format("a rules file cannot hold {} on {} ranks from {} bytes: algorithm {}, segments of {} bytes",
                            name, rule.comm_size, rule.from_bytes, rule.algorithm, rule.segment_bytes));
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
  const OmpiCollective& known = *ompi_collective_of_rule(rule_id);
  std::string entries;
  int count = 0;
  const auto append = [&](const std::string& entry) {
    entries += entry;
    ++count;
  };
  // Without an entry for smaller ones Open MPI takes the first that there is.
  if (sizes.begin()->first > 1) append(guard(0, "smaller communicators: the library's own choice"));
  for (auto at = sizes.begin(); at != sizes.end(); ++at) {
    append(comm_entry(at->first, "communicator size") + messages_text(known.id, at->second));
    // An entry reaches up to the next.
    const auto next = std::next(at);
    if (at->first < INT_MAX && (next == sizes.end() || next->first > at->first + 1)) {
      append(guard(at->first + 1, "from this size on: the library's own choice"));
    }
  }
  return fmt::format("{}  # collective: {}\n{}  # communicator sizes\n{}", rule_id, known.tuned_name, count, entries);
}

/// The numbers of the text, by the C library's own scanner, so that every oddity of %li is the same.
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

/// A number that is not negative; what Open MPI keeps in an int is cut as it cuts it.
long take(Numbers& numbers, std::string_view what) {
  const std::optional<long> value = numbers.next();
  if (!value) throw Ignored{fmt::format("the file ends where {} should stand", what)};
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
  if (collectives > static_cast<long>(kOmpiRuleCollectives)) {
    throw Ignored{fmt::format("{} collectives, but Open MPI knows {}", collectives, kOmpiRuleCollectives)};
  }
  for (long i = 0; i < collectives; ++i) {
    const long id = take(numbers, "a collective's number");
    if (id >= static_cast<long>(kOmpiRuleCollectives)) {
      throw Ignored{fmt::format("collective {}, but the last is {}", id, kOmpiRuleCollectives - 1)};
    }
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

}  // namespace

std::string ompi_rules_text(std::span<const OmpiRule> rules) {
  std::map<int, Sizes> sorted;
  for (const OmpiRule& rule : rules) add(sorted, rule);
  std::string text = fmt::format(
      "# Open MPI rules file, written by busbar {}. Use it with\n"
      "#   --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename FILE\n"
      "# Open MPI ignores a file that it cannot read without a word: prove its effect with `busbar fingerprint`.\n"
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
  return entry != nullptr && std::any_of(entry->messages.begin(), entry->messages.end(),
                                         [](const OmpiMessageRule& rule) { return rule.algorithm != 0; });
}

}  // namespace busbar
