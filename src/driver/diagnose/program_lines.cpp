#include "driver/diagnose/program_lines.h"

#include "common/base/lists.h"
#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "driver/diagnose/log_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <utility>

namespace busbar {
namespace {

using What = ProgramEvent::What;

/// The number behind the first `key` and blanks, '=' and ':'; false where there is none.
bool number_behind(std::string_view text, std::string_view key, std::int64_t& value) {
  const std::size_t at = text.find(key);
  if (at == kNotFound) return false;
  text.remove_prefix(at + key.size());
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" =:")));
  const std::optional<std::int64_t> number = leading_number<std::int64_t>(text);
  value = number.value_or(value);
  return number.has_value();
}

/// "1, 3-5 and 7", up to what is no list of numbers.
std::vector<int> number_list(std::string_view text) {
  constexpr std::size_t kMost = 4096;
  std::vector<int> numbers;
  LogScan scan{text};
  while (numbers.size() < kMost) {
    scan.skip_blanks();
    int first = 0;
    if (!scan.number(first) || first < 0) break;
    int last = first;
    if (scan.take("-") && (!scan.number(last) || last - first > 1 << 16)) last = first;
    for (std::int64_t one = first; one <= last && numbers.size() < kMost; ++one)
      numbers.push_back(static_cast<int>(one));
    scan.skip_blanks();
    if (!scan.take(",") && !scan.take("and ")) break;
  }
  return numbers;
}

/// Off the front, where people quote, number or list what they paste.
std::string_view without_marks(std::string_view text) {
  for (;;) {
    text = without_blanks(text);
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (text.starts_with('>') || text.starts_with('`')) {
      text.remove_prefix(1);
    } else if (text.starts_with("- ") || text.starts_with("* ") || text.starts_with("| ")) {
      text.remove_prefix(2);
    } else if (digits > 0 && text.substr(digits).starts_with("  ")) {
      text.remove_prefix(digits);
    } else {
      return text;
    }
  }
}

/// "rank=9" or "rank9" in a decoration.
int rank_in(std::string_view decoration) {
  std::int64_t rank = -1;
  const std::string low = lower_case(decoration);
  if (!number_behind(low, "rank", rank) || rank > 1 << 24) return -1;
  return static_cast<int>(rank);
}

bool is_host(std::string_view word) {
  return word.find_first_of("0123456789") != kNotFound &&
         word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-_") == kNotFound;
}

/// A decoration off the front of `text`; false where there is none.
bool take_decoration(std::string_view& text, Speaker& speaker) {
  const char open = text.empty() ? '\0' : text.front();
  if (open == '[' || open == '(') {
    const std::size_t close = text.find(open == '[' ? "]" : ") ");
    if (close > 120) return false;  // nowhere is beyond that too
    std::string_view inside = text.substr(1, close - 1);
    std::string_view rest = text.substr(close + 1);
    const bool ray = open == '(' && mentions(inside, "pid=");
    const int rank = ray || lower_case(inside).starts_with("rank") ? rank_in(inside) : -1;
    int of_mpirun = -1;
    const bool mpirun = open == '[' && (rest.starts_with("<stdout>:") || rest.starts_with("<stderr>:")) &&
                        whole_number(inside.substr(inside.find(',') + 1), of_mpirun);
    if (!ray && rank < 0 && !mpirun && !inside.starts_with("default")) return false;
    if (mpirun) rest.remove_prefix(9);
    if (rest.starts_with(':')) rest.remove_prefix(1);
    // The outer one is the launcher's; "[Rank 1]" behind it counts within a group.
    if (speaker.rank < 0) speaker.rank = mpirun ? of_mpirun : rank;
    text = without_blanks(rest);
    return true;
  }
  int srun = -1;
  const std::size_t colon = text.find(": ");
  if (colon < 7 && whole_number(text.substr(0, colon), srun)) {
    if (speaker.rank < 0) speaker.rank = srun;
    text = without_blanks(text.substr(colon + 2));
    return true;
  }
  // pdsh and its like: "10.0.0.1: [rank3]: ...", "node12: [rank3]: ...", but not "ValueError: [rank3]: ...".
  if (colon < 64 && text.substr(colon + 2).starts_with('[') && is_host(text.substr(0, colon))) {
    text.remove_prefix(colon + 2);
    return true;
  }
  // Kubernetes: "2026-11-21T00:00:00.000000000Z stderr F ".
  const std::string_view time = find_iso_timestamp(text.substr(0, 48));
  if (!time.empty() && time.data() == text.data()) {
    text = without_blanks(text.substr(time.size()));
    for (const std::string_view stream : {"stdout F ", "stderr F "}) {
      if (text.starts_with(stream)) text.remove_prefix(stream.size());
    }
    return true;
  }
  return false;
}

}  // namespace

Speaker find_speaker(std::string_view line) {
  Speaker speaker;
  speaker.text = without_marks(line);
  for (int i = 0; i < 4 && take_decoration(speaker.text, speaker); ++i) {
  }
  return speaker;
}

bool may_tell_failure(std::string_view line) { return builtin_line_rules().has("signs", line); }

namespace {

/// A line without its decorations, in lower case too, and the events found in it so far.
struct ProgramLine {
  const Speaker& speaker;
  std::string low;
  std::vector<ProgramEvent>& events;

  ProgramEvent& add(What what) {
    ProgramEvent event;
    event.what = what;
    event.text = std::string(speaker.text.substr(0, 500));
    if (speaker.rank >= 0) event.ranks.push_back(speaker.rank);
    events.push_back(std::move(event));
    return events.back();
  }
  /// Adds an event of which there is nothing more to say.
  bool is(What what) { return add(what).what == what; }
};

/// TORCH_DISTRIBUTED_DEBUG=DETAIL: "Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=7,
/// OpType=BARRIER), but Rank 1 is running collective: ...".
bool read_fingerprints(ProgramLine& line) {
  constexpr std::string_view kRunning = " is running collective: ";
  const std::string_view text = line.speaker.text;
  for (std::size_t at = text.find(kRunning); at != kNotFound; at = text.find(kRunning, at + 1)) {
    const std::size_t word = text.substr(0, at).rfind(' ');
    int rank = -1;
    if (word == kNotFound || !whole_number(text.substr(word + 1, at - word - 1), rank)) continue;
    std::string_view of = text.substr(at + kRunning.size());
    of = of.substr(0, std::min(of.find("but Rank "), of.find(kRunning)));
    of = of.substr(0, of.find(").") == kNotFound ? of.size() : of.find(").") + 1);
    if (of.starts_with("CollectiveFingerPrint(")) of.remove_prefix(22);
    ProgramEvent& event = line.add(What::fingerprint);
    event.ranks = {rank};
    event.number = -1;
    number_behind(of, "SequenceNumber", event.number);
    const std::size_t op = of.starts_with("SequenceNumber=") ? of.find(", ") : 0;
    std::string_view name = op == kNotFound ? std::string_view() : of.substr(op == 0 ? 0 : op + 2);
    while (!name.empty() && std::string_view(" ,.)").find(name.back()) != kNotFound) name.remove_suffix(1);
    event.name = std::string(name.substr(0, 200));
  }
  return mentions(text, kRunning);
}

/// Ranks that others wait for before anything else: barriers, stores.
void read_absent(ProgramLine& line, const LineRule& rule) {
  const std::string_view text = line.speaker.text;
  const std::string count = builtin_line_rules().capture(rule, text, "count");
  ProgramEvent& event = line.add(What::absent);
  event.ranks = number_list(builtin_line_rules().capture(rule, text, "ranks"));
  event.name = count.empty() ? rule.means : fmt::format("{} ({})", rule.means, count);
}

/// "process 1 terminated with signal SIGSEGV", of multiprocessing; -1: it is not said so.
int spawned_rank(std::string_view low) {
  const std::size_t spawn = low.find("process ");
  std::int64_t number = -1;
  const bool ended = mentions(low, " terminated") || mentions(low, " exited");
  if (spawn == kNotFound || !ended || mentions(low, "pid")) return -1;
  return number_behind(low.substr(spawn), "process ", number) && number < 4096 ? static_cast<int>(number) : -1;
}

/// False where it ended well.
bool read_end(ProgramLine& line, const LineRule& rule) {
  const std::string said = builtin_line_rules().capture(rule, line.speaker.text, "code");
  std::int64_t code = number_of<std::int64_t>(said).value_or(0);
  if (!said.empty() && code == 0) return false;
  LineFacts facts = builtin_line_rules().facts_in("endings", line.speaker.text);
  if (said.empty()) code = is_out_of_memory(rule) ? -SIGKILL : -number_of<int>(facts["signal"]).value_or(0);
  if (code > 128 && code < 193) code = 128 - code;
  ProgramEvent& event = line.add(code == -SIGTERM ? What::stopped : What::ended);
  event.number = code;
  event.rule = &rule;
  number_behind(line.low, "pid", event.pid);
  if (event.ranks.empty()) event.ranks = number_list(facts["ranks"]);
  if (const int rank = spawned_rank(line.low); event.ranks.empty() && rank >= 0) event.ranks = {rank};
  if (facts.contains("host")) event.host = facts["host"];
  return true;
}

/// What an uncorrectable or failed thing looks like in lists of counters, where it stands beside zeros.
bool is_counter(std::string_view low) {
  const std::size_t colon = low.find(" : ");
  return colon < 60 && low.size() - colon < 16;
}

/// A failure that NCCL, CUDA, Gloo or a plugin tells, passed on by a program.
bool read_message(ProgramLine& line, const LineRule& rule, bool in_error) {
  const LineRules& rules = builtin_line_rules();
  const std::string_view text = line.speaker.text;
  const bool of_peer =
      rule.kind == RuleKind::unreachable || rule.kind == RuleKind::refused || rule.kind == RuleKind::victim;
  if (rule.nccl_only || rule.kind == RuleKind::harmless) return false;
  if (!in_error && (!rules.has("failing", text) || (is_counter(line.low) && !mentions(line.low, "net/")))) return false;
  if (of_peer && !rules.has("networking", text)) return false;
  ProgramEvent& event = line.add(What::message);
  event.rule = &rule;
  // nccl-tests: "node1: Test CUDA failure ...".
  const std::size_t test = text.find(": Test ");
  if (test != kNotFound && text.find(' ') == test + 1) event.host = std::string(text.substr(0, test));
  return true;
}

/// Whether the rule says all that there is to say of a line.
bool read_by_rule(ProgramLine& line, const LineRule& rule, bool in_error) {
  switch (rule.kind) {
    case RuleKind::absent:
      read_absent(line, rule);
      return true;
    case RuleKind::ended:
      return read_end(line, rule);
    case RuleKind::no_error:
      return true;
    case RuleKind::traceback:
      return line.is(What::traceback);
    case RuleKind::stopped:
      return line.is(What::stopped);
    case RuleKind::host_lost:
      return line.is(What::host_lost);
    case RuleKind::exception:
      return line.is(What::exception);
    case RuleKind::error:
      return line.is(What::error);
    default:
      return read_message(line, rule, in_error);
  }
}

}  // namespace

std::optional<std::string> SmiReader::read(std::string_view line) {
  if (line.starts_with("GPU 0")) {
    gpu_ = std::string(line.substr(0, 40));
    aggregate_ = false;
    return std::nullopt;
  }
  if (!line.starts_with("    ")) return std::nullopt;
  line = without_blanks(line);
  if (line == "Aggregate" || line == "Volatile") aggregate_ = line == "Aggregate";
  if (!builtin_line_rules().has("gpu-troubles", line)) return std::nullopt;
  const std::size_t colon = line.find(" : ");
  const std::string_view key = without_blanks(line.substr(0, colon));
  if (aggregate_ && mentions(key, "Uncorrectable")) return std::nullopt;
  return fmt::format("{}: {} : {}", gpu_.empty() ? "a GPU" : gpu_, key, without_blanks(line.substr(colon + 3)));
}

bool opens_error(std::string_view line) {
  line = without_marks(line);
  return line.ends_with("Last error:") || line.ends_with("last error:") || mentions(line, "Last NCCL warning(error)");
}

std::vector<ProgramEvent> read_program_line(std::string_view text, bool in_error) {
  std::vector<ProgramEvent> events;
  const Speaker speaker = find_speaker(text.substr(0, 4096));
  if (speaker.text.size() < 4) return events;
  ProgramLine line{speaker, lower_case(speaker.text.substr(0, 2000)), events};
  if (read_fingerprints(line)) return events;
  bool message = false;  // the first that fits is the only one that counts
  for (const LineRule* rule : builtin_line_rules().matches(speaker.text.substr(0, 2000))) {
    const bool is_message = rule->kind < RuleKind::traceback;
    if ((!is_message || !message) && read_by_rule(line, *rule, in_error)) break;
    message = message || is_message;
  }
  return events;
}

}  // namespace busbar
