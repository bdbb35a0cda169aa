#include "driver/diagnose/program_lines.h"

#include "common/base/lists.h"
#include "common/base/log_scan.h"
#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace busbar {
namespace {

using What = ProgramEvent::What;

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

/// A line without the marks of people who quote, number or list what they paste.
std::string_view without_marks(std::string_view line) {
  return builtin_line_rules().shape_in("marks", line).text("rest");
}

/// "rank=9" or "rank9" in a decoration.
int rank_in(std::string_view decoration) {
  const std::size_t at = lower_case(decoration).find("rank");
  if (at == kNotFound) return -1;
  const int rank = leading_number<int>(trimmed(decoration.substr(at + 4), " =:")).value_or(-1);
  return rank > 1 << 24 ? -1 : rank;
}

bool is_host(std::string_view word) {
  return word.find_first_of("0123456789") != kNotFound && word.find_first_not_of("0123456789") != kNotFound &&
         word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-_") == kNotFound;
}

/// Takes a decoration off the front of `text`; false if there is none.
bool take_decoration(std::string_view& text, LineWriter& writer) {
  // mpirun --timestamp-output: "Sun Dec 24 09:52:05 2017[1,0]<stdout>:".
  const std::size_t tag = text.substr(0, 64).find("<std");
  const std::size_t at = tag == kNotFound ? kNotFound : text.substr(0, tag).rfind('[');
  if (at != kNotFound && text[tag - 1] == ']') text.remove_prefix(at);
  const char open = text.empty() ? '\0' : text.front();
  if (text.starts_with("[pod/") && text.find("] ") < 200) {  // kubectl logs --prefix
    writer.pod = std::string(text.substr(5, text.find_first_of("/]", 5) - 5));
    text = without_blanks(text.substr(text.find("] ") + 2));
    return true;
  }
  if (open == '[' || open == '(') {
    const std::size_t close = text.substr(0, 122).find(open == '[' ? "]" : ") ");
    if (close > 120) return false;  // nowhere is beyond that too
    std::string_view inside = text.substr(1, close - 1);
    std::string_view rest = text.substr(close + 1);
    const bool ray = open == '(' && mentions(inside, "pid=");
    const int rank = ray || lower_case(inside.substr(0, 4)) == "rank" ? rank_in(inside) : -1;
    int of_mpirun = -1;
    const bool mpirun = open == '[' && (rest.starts_with("<stdout>:") || rest.starts_with("<stderr>:")) &&
                        whole_number(inside.substr(inside.find(',') + 1), of_mpirun);
    // Hydra's and Intel MPI's "[3] ", but not a list's "[3] 17".
    const bool hydra = open == '[' && writer.label < 0 && rest.size() > 1 && rest[0] == ' ' && is_name(rest[1]) &&
                       !is_digit(rest[1]) && whole_number(inside, of_mpirun);
    if (!ray && rank < 0 && !mpirun && !hydra && !inside.starts_with("default")) return false;
    if (mpirun) rest.remove_prefix(9);
    if (rest.starts_with(':')) rest.remove_prefix(1);
    // If there are several, the outer one is the launcher's, and "[Rank 1]" after it counts within a group. But
    // PyTorch's own "[rank9]" is surer than both: a launcher may have started one torchrun per host.
    if (mpirun || hydra) writer.label = of_mpirun;
    if (inside.starts_with("rank")) writer.own = rank;
    if (writer.rank < 0 || inside.starts_with("rank")) writer.rank = mpirun || hydra ? of_mpirun : rank;
    text = without_blanks(rest);
    return true;
  }
  int srun = -1;
  constexpr std::size_t kLongestHost = 80;
  const std::size_t colon = text.substr(0, kLongestHost + 1).find(": ");
  if (writer.label < 0 && colon < 7 && whole_number(text.substr(0, colon), srun)) {
    writer.label = srun;
    if (writer.rank < 0) writer.rank = srun;
    text = without_blanks(text.substr(colon + 2));
    return true;
  }
  // PALS's "x4310c3s2b0n0.hsn 7: "; DeepSpeed's pdsh: "worker-2: Traceback (most recent call last):".
  const std::size_t end = colon < kLongestHost ? text.substr(0, colon).rfind(' ') : colon;
  const std::string_view host = colon < kLongestHost ? text.substr(0, std::min(end, colon)) : std::string_view();
  const bool pals = end < colon && whole_number(text.substr(end + 1, colon - end - 1), srun);
  if (is_host(host) &&
      (pals || (end == kNotFound && builtin_line_rules().has("labelled", text.substr(colon + 2, 80))))) {
    writer.host = host;
    if (pals) writer.label = writer.rank = srun;
    text = without_blanks(text.substr(colon + 2));
    return true;
  }
  // Kubernetes: "2026-11-21T00:00:00.000000000Z stderr F ".
  const std::string_view time = is_digit(open) ? find_iso_timestamp(text.substr(0, 48)) : std::string_view();
  if (!time.empty() && time.data() == text.data()) {
    text = without_blanks(text.substr(time.size()));
    for (const std::string_view stream : {"stdout F ", "stderr F "}) {
      if (text.starts_with(stream)) text.remove_prefix(stream.size());
    }
    return true;
  }
  return false;
}

using Events = std::vector<ProgramEvent>;

/// Adds what the line reports, of its writer.
ProgramEvent& add(Events& events, const LineWriter& writer, What what) {
  ProgramEvent& event = events.emplace_back();
  event.what = what;
  event.text = std::string(writer.text.substr(0, 500));
  if (writer.rank >= 0) event.ranks.push_back(writer.rank);
  event.host = writer.host;
  return event;
}

/// TORCH_DISTRIBUTED_DEBUG=DETAIL: "Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=7,
/// OpType=BARRIER), but Rank 1 is running collective: ...".
bool read_fingerprints(const LineWriter& writer, Events& events) {
  std::string_view rest = writer.text;
  for (LineShape one; one = builtin_line_rules().shape_in("fingerprints", rest), !one.key.empty();) {
    ProgramEvent& event = add(events, writer, What::fingerprint);
    event.ranks = {one.number("rank")};
    event.number = one.number<std::int64_t>("sequence");
    event.name = std::string(one.text("operation").substr(0, 200));
    rest.remove_prefix(static_cast<std::size_t>(one.text("rank").end() - rest.begin()));
  }
  return rest.size() < writer.text.size();
}

/// Ranks that the rule's groups name replace the line's writer, which may only report.
void set_named(ProgramEvent& event, const LineRule& rule, LineFacts named) {
  event.rule = &rule;
  const auto any_of = [&](std::initializer_list<const char*> groups) {
    std::string found;
    for (const char* group : groups) found = named.contains(group) ? named[group] : found;
    return rule.blame == RuleBlame::nobody ? std::string() : found;
  };
  std::vector<int> ranks = number_list(any_of({"rank", "ranks", "task"}));  // a task of the kernel has a name
  const std::string host = any_of({"pod", "address", "host"});
  if (rule.blame == RuleBlame::nobody || !ranks.empty() || !host.empty()) {
    event.ranks.swap(ranks);
    event.host = host;
  }
  event.device = any_of({"device", "card", "disk", "server", "unit"});                   // a group per alternative
  if (rule.kind == RuleKind::host_lost && named.contains("server")) event.host.clear();  // it only waits
  if (event.device.empty() && rule.kind == RuleKind::hardware)
    event.device = builtin_line_rules().facts_in("devices", event.text)["device"];
  event.pid = number_of<std::int64_t>(named["pid"]).value_or(event.pid);
  event.came = number_list(named["came"]);
}

/// Ranks that others wait for before anything else: barriers, stores.
bool read_absent(const LineWriter& writer, Events& events, const LineRule& rule, const LineFacts& named) {
  ProgramEvent& event = add(events, writer, rule.kind);
  if (rule.blame != RuleBlame::writer) event.ranks.clear();
  set_named(event, rule, named);
  const auto count = named.find("count");
  event.name = count == named.end() ? rule.means : fmt::format("{} ({})", rule.means, count->second);
  // Lists of those that came, one per tensor: the longest decides.
  std::string_view rest = writer.text;
  for (std::size_t end = rest.find(']'); !event.came.empty() && end != kNotFound; end = rest.find(']')) {
    LineFacts more = builtin_line_rules().captures(rule, rest.substr(0, end + 1));
    std::vector<int> came = number_list(more["came"]);
    if (came.size() > event.came.size()) event.came.swap(came);
    for (const int rank : came) {
      if (!contains(event.came, rank) && !contains(event.ranks, rank)) event.ranks.push_back(rank);
    }
    rest.remove_prefix(end + 1);
  }
  // If the size of the group is unknown, the ranks below the last that came are known.
  const int last = event.came.empty() ? 0 : std::ranges::max(event.came);
  for (int rank = 0; rank < last && last < 4096; ++rank) {
    if (!contains(event.ranks, rank)) event.ranks.push_back(rank);
  }
  std::erase_if(event.ranks, [&](int rank) { return contains(event.came, rank); });
  return true;
}

/// False if it ended well.
bool read_end(const LineWriter& writer, Events& events, const LineRule& rule, LineFacts named) {
  const std::optional<std::int64_t> said = number_of<std::int64_t>(named["code"]);
  std::int64_t code = said.value_or(0);
  if (said && code == 0) return false;
  LineFacts facts = builtin_line_rules().facts_in("endings", writer.text);
  // Ray lists what it may have been.
  if (!said && rule.program != "ray")
    code = is_out_of_memory(rule) ? -SIGKILL : -number_of<int>(facts["signal"]).value_or(0);
  if (code > 128 && code < 193) code = 128 - code;
  ProgramEvent& event =
      add(events, writer, code == -SIGTERM || code == -SIGQUIT || code == -SIGINT ? What::stopped : What::ended);
  event.number = code;
  event.pid = number_of<std::int64_t>(facts["pid"]).value_or(event.pid);
  if (event.ranks.empty()) event.ranks = number_list(facts["ranks"]);
  if (facts.contains("local")) {
    event.ranks.clear();  // what srun puts before torchrun's lines is the host's number
    if (writer.label < 0) event.local_rank = number_of<int>(facts["local"]).value_or(-1);
  }
  if (facts.contains("host")) event.host = facts["host"];
  set_named(event, rule, std::move(named));
  return true;
}

/// Whether general words of NCCL, CUDA, Gloo or a plugin mean that here, in a line of some program.
bool is_meant(std::string_view text, const LineRule& rule, bool in_error) {
  const LineRules& rules = builtin_line_rules();
  const bool of_peer =
      rule.kind == RuleKind::unreachable || rule.kind == RuleKind::refused || rule.kind == RuleKind::victim;
  if (rule.where == RuleWhere::nccl) return false;
  if (!rule.program.empty()) return true;  // a message of its own
  if (rule.kind == RuleKind::harmless) return false;
  if (!in_error &&
      (!rules.has("failing", text) || (rules.has("counters", text) && !mentions(lower_case(text), "net/"))))
    return false;
  return !of_peer || rules.has("networking", text);
}

/// A failure of NCCL, CUDA, Gloo or a plugin, passed on by a program; or a message of that program.
bool read_message(const LineWriter& writer, Events& events, const LineRule& rule, const LineFacts& named,
                  bool in_error) {
  if (!is_meant(writer.text, rule, in_error)) return false;
  if (rule.kind == RuleKind::harmless && !named.contains("device")) return true;
  set_named(add(events, writer, What::message), rule, named);
  return true;
}

/// Whether the rule says all about a line.
bool read_by_rule(const LineWriter& writer, Events& events, const LineRule& rule, bool in_error) {
  if (rule.kind == RuleKind::no_error) return true;
  LineFacts named = builtin_line_rules().captures(rule, writer.text);
  if (rule.kind == RuleKind::absent || rule.kind == RuleKind::late) return read_absent(writer, events, rule, named);
  if (rule.kind == RuleKind::ended) return read_end(writer, events, rule, std::move(named));
  if (rule.kind < RuleKind::traceback) return read_message(writer, events, rule, named, in_error);
  set_named(add(events, writer, rule.kind), rule, std::move(named));
  return true;
}

}  // namespace

LineWriter find_writer(std::string_view line) {
  LineWriter writer;
  writer.text = without_marks(line);
  LineFacts said = builtin_line_rules().facts_in("writers", writer.text);
  for (int i = 0; i < 4 && take_decoration(writer.text, writer); ++i) {
  }
  if (said.empty()) said = builtin_line_rules().facts_in("writers", writer.text);  // after what a launcher adds
  if (writer.host.empty()) writer.host = said["host"];
  if (writer.rank < 0) writer.rank = number_of<int>(said["rank"]).value_or(-1);
  // "node12: [rank3]: ", "trainer-1  | [rank3]: ", whatever else may precede it; but not "ValueError: [rank3]: ".
  const std::size_t at = writer.own < 0 ? writer.text.substr(0, 160).find("[rank") : kNotFound;
  if (at == kNotFound || mentions(writer.text.substr(0, at), "Error")) return writer;
  std::string_view rest = writer.text.substr(at);
  if (take_decoration(rest, writer)) writer.text = rest;
  return writer;
}

std::string_view undecorated(std::string_view line) {
  LineWriter writer;
  writer.text = without_blanks(line);
  while (writer.text.starts_with('>')) writer.text = without_blanks(writer.text.substr(1));
  for (int i = 0; i < 4 && take_decoration(writer.text, writer); ++i) {
  }
  return writer.text;
}

bool may_report_failure(std::string_view line) { return builtin_line_rules().may_match(line); }

std::optional<std::string> SmiReader::read(std::string_view line) {
  if (line.starts_with("GPU 0")) {
    gpu_ = std::string(line.substr(0, 40));
    aggregate_ = false;
    return std::nullopt;
  }
  if (!line.starts_with("    ")) return std::nullopt;
  line = without_blanks(line.substr(0, 400));
  if (line == "Aggregate" || line == "Volatile") aggregate_ = line == "Aggregate";
  if (!builtin_line_rules().has("gpu-troubles", line)) return std::nullopt;
  const std::size_t colon = line.find(" : ");
  const std::string_view key = without_blanks(line.substr(0, colon));
  if (aggregate_ && mentions(key, "Uncorrectable")) return std::nullopt;
  return fmt::format("{}: {} : {}", gpu_.empty() ? "a GPU" : gpu_, key, without_blanks(line.substr(colon + 3)));
}

bool opens_error(std::string_view line) { return builtin_line_rules().has("error-heads", without_marks(line)); }

std::vector<ProgramEvent> read_program_line(LineWriter writer, const LineContext& before) {
  Events events;
  if (before.labels_lie && writer.own < 0 && writer.rank == writer.label) writer.rank = -1;
  if (writer.text.empty()) return events;
  if (read_fingerprints(writer, events)) return events;
  bool message = false;  // the first that fits is the only one that counts
  bool traced = false;
  for (const LineRule* rule :
       builtin_line_rules().matches(writer.text, before.help ? RuleWhere::help : RuleWhere::everywhere)) {
    if (!rule->after.empty() && (!before.follows || !before.follows(rule->after))) continue;
    const bool is_message = rule->kind < RuleKind::traceback;
    if (traced && !is_message)
      continue;  // "Error while creating shared memory ..., Traceback (most recent call last):"
    if ((!is_message || !message) && read_by_rule(writer, events, *rule, before.in_error)) {
      traced = rule->kind == RuleKind::traceback;
      if (!traced) break;
    }
    message = message || is_message;
  }
  return events;
}

const LineRule& classify_warning(std::string_view file, std::string_view text) {
  const std::string line = fmt::format("{} {}", file.substr(0, 200), text.substr(0, 2000));
  for (const LineRule* rule : builtin_line_rules().matches(line)) {
    if (rule->kind < RuleKind::traceback) return *rule;  // those of programs follow
  }
  static const LineRule other{};
  return other;
}

std::string warning_shape(std::string_view text) {
  return std::string(trimmed(builtin_line_rules().without("changing-words", text.substr(0, 300), "N")));
}

}  // namespace busbar
