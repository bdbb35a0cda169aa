#include "driver/diagnose/program_lines.h"

#include "common/base/lists.h"
#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "driver/diagnose/log_line.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>

namespace busbar {
namespace {

using What = ProgramEvent::What;

bool has(std::string_view text, std::string_view words) { return text.find(words) != kNotFound; }

template <typename Words>
bool has_any(std::string_view text, const Words& words) {
  return std::ranges::any_of(words, [&](std::string_view one) { return has(text, one); });
}

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

/// The ranks behind the last of some words: "rank 3", "ranks 1, 3".
std::vector<int> ranks_behind(std::string_view text, std::string_view words) {
  const std::size_t at = text.rfind(words);
  return at == kNotFound ? std::vector<int>{} : number_list(text.substr(at + words.size()));
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
    const bool ray = open == '(' && has(inside, "pid=");
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

namespace {

// What lines of failures have, in lower case. read_program_line tells nothing of a line without any of these, and
// may_tell_failure looks for all of them at once.

constexpr std::string_view kFailing[] = {
    "error",    "fail",    "fatal",  "exception", "what():",        "abort",  "errno",
    "mismatch", "warning", "cannot", "unable",    "got completion", "got cqe"};

/// An end that somebody wanted.
constexpr std::string_view kStopped[] = {"cancelled at",    "death signal",      "closing signal",    "via signal",
                                         "sigterm handler", "keyboardinterrupt", "killing subprocess"};

constexpr std::string_view kHostLost[] = {"lost communication", "node failure",      "missed too many heartbeats",
                                          "nodenotready",       "node is not ready", "lost connection to node"};

constexpr std::string_view kOutOfMemory[] = {"oom_kill", "oom-kill", "oomkilled", "oom killed"};

/// Words before which an exit code stands.
constexpr std::string_view kExitCodes[] = {"exitcode",        "exit code", "exit status", "return code",
                                           "returned status", "exit_code", "returncode"};

/// What tells a signal.
constexpr std::string_view kEnded[] = {"exited on signal",
                                       "terminated with signal",
                                       "terminated by signal",
                                       "terminated with the exit string",
                                       "received by pid",
                                       "killed by signal",
                                       "died from signal",
                                       "code=killed",
                                       "core dumped",
                                       "was killed",
                                       "oomkilled",
                                       "process received signal",
                                       "fatal python error",
                                       "died with <signals",
                                       "caught signal"};

/// An error where no shape is known.
constexpr std::string_view kErrors[] = {"failed with",
                                        "failure",
                                        "failed to",
                                        " failed",
                                        "timed out",
                                        "core dumped",
                                        "crashed",
                                        "has died",
                                        "unexpected",
                                        "not responding",
                                        "processgroupnccl's watchdog got stuck",
                                        "heartbeat monitor timed out"};

/// Words of the shapes that are read by more than a search.
constexpr std::string_view kShapes[] = {"traceback (most recent call last)",
                                        "file \"",
                                        " is running collective: ",
                                        " clients joined",
                                        "interrupt",
                                        "terminate called after",
                                        "terminated",
                                        "killed",
                                        "segmentation",
                                        "critical",
                                        ".cpp:",
                                        "[repeated "};

}  // namespace

bool tells_out_of_memory(std::string_view low) { return has_any(low, kOutOfMemory); }

namespace {

/// The words above, by their first two letters.
class AlarmingWords {
 public:
  AlarmingWords() {
    const std::initializer_list<std::span<const std::string_view>> tables = {
        kFailing, kStopped, kHostLost, kOutOfMemory, kExitCodes, kEnded, kErrors, kShapes};
    for (const auto table : tables) {
      for (const std::string_view word : table) words_[place(word[0], word[1])].push_back(word);
    }
  }

  /// Whether a word begins there. Two letters at least are left.
  bool begins(std::string_view line) const {
    return std::ranges::any_of(words_[place(line[0], line[1])], [&](std::string_view word) {
      return std::ranges::equal(line.substr(0, word.size()), word,
                                [](char a, char b) { return (is_upper(a) ? a - 'A' + 'a' : a) == b; });
    });
  }

 private:
  /// Of upper and lower case letters the last five bits are the same.
  static std::size_t place(char first, char second) {
    return (static_cast<unsigned char>(first) & 31U) * 32 + (static_cast<unsigned char>(second) & 31U);
  }

  std::array<std::vector<std::string_view>, 1024> words_;
};

}  // namespace

bool may_tell_failure(std::string_view line) {
  static const AlarmingWords kWords;
  for (; line.size() > 1; line.remove_prefix(1)) {
    if (kWords.begins(line)) return true;
  }
  return false;
}

namespace {

/// A line without its decorations, in lower case too, and what is told of it so far.
struct Told {
  const Speaker& speaker;
  std::string low;
  std::vector<ProgramEvent>& events;

  ProgramEvent& add(What what) {
    ProgramEvent event;
    event.what = what;
    event.text = std::string(speaker.text.substr(0, 500));
    event.host = std::string(speaker.host);
    if (speaker.rank >= 0) event.ranks.push_back(speaker.rank);
    events.push_back(std::move(event));
    return events.back();
  }
};

/// TORCH_DISTRIBUTED_DEBUG=DETAIL: "Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=7,
/// OpType=BARRIER), but Rank 1 is running collective: ...".
bool read_fingerprints(Told& told) {
  constexpr std::string_view kRunning = " is running collective: ";
  const std::string_view text = told.speaker.text;
  for (std::size_t at = text.find(kRunning); at != kNotFound; at = text.find(kRunning, at + 1)) {
    const std::size_t word = text.substr(0, at).rfind(' ');
    int rank = -1;
    if (word == kNotFound || !whole_number(text.substr(word + 1, at - word - 1), rank)) continue;
    std::string_view of = text.substr(at + kRunning.size());
    of = of.substr(0, std::min(of.find("but Rank "), of.find(kRunning)));
    of = of.substr(0, of.find(").") == kNotFound ? of.size() : of.find(").") + 1);
    if (of.starts_with("CollectiveFingerPrint(")) of.remove_prefix(22);
    ProgramEvent& event = told.add(What::fingerprint);
    event.ranks = {rank};
    event.number = -1;
    number_behind(of, "SequenceNumber", event.number);
    const std::size_t op = of.starts_with("SequenceNumber=") ? of.find(", ") : 0;
    std::string_view name = op == kNotFound ? std::string_view() : of.substr(op == 0 ? 0 : op + 2);
    while (!name.empty() && std::string_view(" ,.)").find(name.back()) != kNotFound) name.remove_suffix(1);
    event.name = std::string(name.substr(0, 200));
  }
  return has(text, kRunning);
}

/// Ranks that others wait for before anything else: barriers, stores.
bool read_absent(Told& told) {
  const std::string_view low = told.low;
  if (const std::size_t at = low.find(" failed to pass monitoredbarrier"); at != kNotFound) {
    ProgramEvent& event = told.add(What::absent);
    event.name = "a monitored barrier";
    event.ranks = ranks_behind(low.substr(0, at), "ranks ");
    if (event.ranks.empty()) event.ranks = ranks_behind(low.substr(0, at), "rank ");
    return true;
  }
  if (const std::size_t at = low.find(" clients joined"); at != kNotFound) {
    told.add(What::absent).name =
        "the store at the start (" + std::string(low.substr(low.rfind(' ', at - 1) + 1, 40)) + ")";
    told.events.back().ranks.clear();
    return true;
  }
  if (has(low, "ncclunqiueid from [") || has(low, "ncclunique") || has(low, "store->get(")) {
    std::int64_t from = -1;
    if (!number_behind(low, " from [", from) || !has(low, "error")) return false;
    ProgramEvent& event = told.add(What::absent);
    event.name = "the creation of a communicator";
    event.ranks = {static_cast<int>(from)};
    return true;
  }
  return false;
}

/// Names of signals as launchers, shells and libraries write them.
constexpr std::pair<std::string_view, int> kSignals[] = {{"sigkill", 9},
                                                         {"sigsegv", 11},
                                                         {"sigbus", 7},
                                                         {"sigabrt", 6},
                                                         {"sigterm", 15},
                                                         {"sigfpe", 8},
                                                         {"sigill", 4},
                                                         {"sighup", 1},
                                                         {"sigint", 2},
                                                         {"segmentation fault", 11},
                                                         {"bus error", 7},
                                                         {"killed", 9},
                                                         {"aborted", 6},
                                                         {"terminated", 15},
                                                         {"floating point exception", 8},
                                                         {"illegal instruction", 4}};

int signal_in(std::string_view low) {
  std::int64_t number = 0;
  for (const std::string_view key :
       {"on signal ", "signal code: ", "with signal ", "killed by signal ", "signal: ", "signal "}) {
    if (number_behind(low, key, number) && number > 0 && number < 65) return static_cast<int>(number);
  }
  for (const auto& [name, signal] : kSignals) {
    if (has(low, name)) return signal;
  }
  return 0;
}

/// "task 3:", "tasks 0-7:", "process rank 3", "rank: 3", "rank      : 3 (local_rank: 0)", "process 1 terminated".
void read_whose(Told& told, ProgramEvent& event) {
  const std::string_view low = told.low;
  for (const std::string_view key : {"task ", "tasks ", "process rank "}) {
    if (event.ranks.empty()) event.ranks = ranks_behind(low, key);
  }
  std::int64_t number = -1;
  const std::size_t spawn = low.find("process ");
  if (event.ranks.empty() && spawn != kNotFound && (has(low, " terminated") || has(low, " exited")) &&
      number_behind(low.substr(spawn), "process ", number) && number < 4096 && !has(low, "pid")) {
    event.ranks = {static_cast<int>(number)};
  }
  // "srun: error: node1: task 3: Killed", "... on node node1 exited on signal 9".
  const std::string_view text = told.speaker.text;
  if (const std::size_t on = text.find(" on node "); on != kNotFound) {
    event.host = std::string(text.substr(on + 9, text.find_first_of(" ,.", on + 9) - on - 9));
  } else if (text.starts_with("srun: error: ")) {
    const std::string_view rest = text.substr(13);
    if (const std::size_t colon = rest.find(": task"); colon != kNotFound)
      event.host = std::string(rest.substr(0, colon));
  }
}

bool read_end(Told& told) {
  const std::string_view low = told.low;
  if (has_any(low, kStopped) || low == "terminated") {
    told.add(What::stopped);
    return true;
  }
  if (has_any(low, kHostLost)) {
    told.add(What::host_lost);
    return true;
  }
  std::int64_t code = 0;
  const bool coded = std::ranges::any_of(kExitCodes, [&](auto key) { return number_behind(low, key, code); });
  const bool launchers = low.starts_with("srun: error:") && has(low, " task");
  const bool shell = low == "killed" || low == "aborted" || low == "segmentation fault" || low == "bus error" ||
                     low.ends_with(" killed") || low.ends_with(": segmentation fault") || low.ends_with(": bus error");
  const bool signal_line = has(low, "signal: ") && (has(low, "segmentation") || has(low, "bus error"));
  const bool oom = tells_out_of_memory(low);
  if (coded && code == 0 && !oom) return false;
  if (!coded && !has_any(low, kEnded) && !(launchers && signal_in(low) != 0) && !shell && !signal_line && !oom)
    return false;
  if (!coded) code = -signal_in(low);
  if (oom) code = -9;
  if (code > 128 && code < 193) code = 128 - code;
  ProgramEvent& event = told.add(code == -15 ? What::stopped : What::ended);
  event.number = code;
  number_behind(low, "pid", event.pid);
  read_whose(told, event);
  return true;
}

/// "torch.distributed.DistBackendError: ...", "RuntimeError: ...", "what():  ...".
bool is_exception(std::string_view text) {
  if (text.starts_with("what():") || text.starts_with("terminate called after")) return true;
  std::size_t end = 0;
  while (end < text.size() && (is_name(text[end]) || text[end] == '.')) ++end;
  const std::string_view name = text.substr(0, end);
  const bool named = name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Interrupt");
  return named && (end == text.size() || text[end] == ':' || text[end] == '(');
}

constexpr std::string_view kNetworking[] = {"socket",         "gloo",      "nccl", "tcpstore",    "c10d",
                                            "proxy call",     "bootstrap", "net/", "connect to ", "connectfullmesh",
                                            "remote process", "peer "};

/// What an uncorrectable or failed thing looks like in lists of counters, where it stands beside zeros.
bool is_counter(std::string_view low) {
  const std::size_t colon = low.find(" : ");
  return colon < 60 && low.size() - colon < 16;
}

/// A failure that NCCL, CUDA, Gloo or a plugin tells, passed on by a program.
bool read_message(Told& told, bool in_error) {
  const std::string_view low = told.low;
  if (!in_error && !has_any(low, kFailing)) return false;
  if (is_counter(low) && !in_error && !has(low, "net/")) return false;
  const WarningRule& rule = classify_warning("", told.speaker.text);
  switch (rule.kind) {
    case WarningKind::hardware:
    case WarningKind::resource:
    case WarningKind::call_mismatch:
    case WarningKind::size_mismatch:
    case WarningKind::fallout:
      break;
    case WarningKind::config:
      if (rule.first == "nccl_" || rule.first == "imex") return false;
      break;
    case WarningKind::unreachable:
    case WarningKind::refused:
    case WarningKind::victim:
      // Health checks and clients of other services fail too.
      if (!has_any(low, kNetworking)) return false;
      break;
    case WarningKind::harmless:
    case WarningKind::other:
      return false;
  }
  ProgramEvent& event = told.add(What::message);
  event.rule = &rule;
  // nccl-tests: "node1: Test CUDA failure ...".
  const std::size_t test = told.speaker.text.find(": Test ");
  if (test != kNotFound && told.speaker.text.find(' ') == test + 1)
    event.host = std::string(told.speaker.text.substr(0, test));
  return true;
}

constexpr std::string_view kHarmlessErrors[] = {
    "no error",       "0 error",       "errors: 0",        "error: 0",         "error rate",     "mean squared error",
    "error_if",       "error-correct", "errors corrected", "without error",    "errors='",       "ignore errors",
    "failed: 0",      "0 failed",      "on_error",         "error_file",       "on error",       "userwarning",
    "futurewarning",  "deprecat",      "max error",        "absolute error",   "relative error", "validation error",
    "training error", "test error:",   "log_error",        "failed to import", "optional",       "error_handling"};

/// Words that call a line an error where no shape is known.
bool is_error(const Told& told) {
  const std::string_view text = told.speaker.text, low = told.low;
  if (text.starts_with('#') || has_any(low, kHarmlessErrors)) return false;
  constexpr std::string_view kLevels[] = {"ERROR", "FATAL", "CRITICAL", "Error:", "error:", "Fatal", "Exception:"};
  if (has_any(text, kLevels)) return true;
  if (has_any(low, kErrors)) return true;
  // glog: "[E ProcessGroupNCCL.cpp:537] ...", "E1003 18:37:01.83 ...".
  const std::size_t glog = text.find("[E");
  return glog != kNotFound && glog + 2 < text.size() && (text[glog + 2] == ' ' || is_digit(text[glog + 2])) &&
         has(text, ".cpp:");
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
  const std::size_t colon = line.find(" : ");
  if (colon == kNotFound) {
    if (line == "Aggregate" || line == "Volatile") aggregate_ = line == "Aggregate";
    return std::nullopt;
  }
  const std::string_view key = without_blanks(line.substr(0, colon)), value = without_blanks(line.substr(colon + 3));
  std::int64_t count = 0;
  const bool counts = has(key, "Uncorrectable") && whole_number(value, count) && count > 0 && !aggregate_;
  const bool told =
      (key == "Remapping Failure Occurred" || key == "Pending" || key == "Pending Page Blacklist") && value == "Yes";
  const bool hot = key == "HW Thermal Slowdown" || key == "HW Power Brake Slowdown";
  if (!counts && !told && !(hot && value == "Active")) return std::nullopt;
  return (gpu_.empty() ? std::string("a GPU") : gpu_) + ": " + std::string(key) + " : " + std::string(value);
}

bool opens_error(std::string_view line) {
  line = without_marks(line);
  return line.ends_with("Last error:") || line.ends_with("last error:") || has(line, "Last NCCL warning(error)");
}

std::vector<ProgramEvent> read_program_line(std::string_view line, bool in_error) {
  std::vector<ProgramEvent> events;
  const Speaker speaker = find_speaker(line.substr(0, 4096));
  if (speaker.text.size() < 4) return events;
  Told told{speaker, lower_case(speaker.text.substr(0, 2000)), events};
  if (has(told.low, "traceback (most recent call last)") ||
      (speaker.text.starts_with("File \"") && has(speaker.text, "\", line "))) {
    told.add(What::traceback);
    return events;
  }
  if (read_fingerprints(told) || read_absent(told)) return events;
  if (read_message(told, in_error) || read_end(told)) return events;
  if (is_exception(speaker.text)) {
    told.add(What::exception);
  } else if (is_error(told)) {
    told.add(What::error);
  }
  return events;
}

}  // namespace busbar
