#include "common/base/lists.h"
#include "common/base/text.h"
#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace busbar {
namespace {

using What = ProgramEvent::What;

std::string quoted(const ProgramNote& note) {
  return fmt::format("\"{}\"{}", note.text, note.times > 1 ? fmt::format(" ({} times)", note.times) : "");
}

/// What the notes of one kind say, in the order of the log, each once.
std::vector<std::string> quotes(const LogView& view, What what, std::size_t most) {
  std::vector<std::string> lines;
  for (const ProgramNote& note : view.book.program) {
    if (note.what == what && lines.size() < most) add_once(lines, quoted(note));
  }
  return lines;
}

/// Ranks that reported that a collective timed out: they wait for somebody.
struct Waiting {
  std::set<int> ranks;  ///< ranks with a collective that timed out
  std::set<int> gloos;  ///< those of them in Gloo, whose lines number no collectives
  std::size_t file = 0;
  std::uint64_t line = 0;  ///< of the first timeout
  int group = -1;          ///< ranks of the group that timed out, if logged
};

Waiting find_waiting(const LogView& view) {
  Waiting waiting;
  for (const auto& [key, state] : view.book.torch.states) {
    if (state.timed_out_seq < 0) continue;
    if (const std::pair at(state.file, state.line); waiting.ranks.empty() || at < std::pair(waiting.file, waiting.line))
      std::tie(waiting.file, waiting.line) = at;
    waiting.ranks.insert(key.second);
    waiting.group = std::max({waiting.group, group_size(state), key.second + 1});
  }
  for (const WarningRecord& one : view.book.warnings) {
    if (one.rule->id != "gloo-waited" || one.ranks.empty()) continue;
    if (waiting.ranks.empty()) std::tie(waiting.file, waiting.line) = std::tie(one.file, one.line);
    waiting.ranks.insert(one.ranks.begin(), one.ranks.end());
    waiting.gloos.insert(one.ranks.begin(), one.ranks.end());
  }
  return waiting;
}

/// What each rank runs: its number in the sequence, and the operation.
void find_fingerprints(const LogView& view, Findings& findings) {
  std::map<std::pair<std::int64_t, std::string>, std::set<int>> kinds;
  for (const ProgramNote& note : view.book.program) {
    if (note.what != What::fingerprint) continue;
    for (const int rank : note.ranks) kinds[{note.number, note.name}].insert(rank);
  }
  if (kinds.size() < 2) return;
  const std::int64_t least_seq = kinds.begin()->first.first, last_seq = kinds.rbegin()->first.first;
  std::size_t most = 0;
  for (const auto& [kind, ranks] : kinds) most = std::max(most, ranks.size());
  const bool tie = std::ranges::count_if(kinds, [&](const auto& one) { return one.second.size() == most; }) > 1;
  std::set<int> blamed;
  std::vector<std::string> said;
  for (const auto& [kind, ranks] : kinds) {
    said.push_back(fmt::format("{} run{} {}{}", list_ranks(ranks), ranks.size() == 1 ? "s" : "",
                               kind.second.empty() ? "a collective" : kind.second,
                               kind.first < 0 ? "" : fmt::format(" as number {}", kind.first)));
    if (tie || ranks.size() != most) blamed.insert(ranks.begin(), ranks.end());
  }
  const auto operation = [](const auto& one) { return one.first.second.substr(0, one.first.second.find(',')); };
  const bool one_operation = std::ranges::all_of(kinds, [&, first = operation(*kinds.begin())](const auto& one) {
    return operation(one).starts_with(first) || first.starts_with(operation(one));  // lines are cut
  });
  Finding finding = make_finding(one_operation ? Verdict::arg_mismatch : Verdict::order_mismatch,
                                 "ranks called different collectives at one place: " + joined_words(said, ", "),
                                 quotes(view, What::fingerprint, 3), {remedy("compare-both-stacks")});
  finding.ranks.assign(blamed.begin(), blamed.end());
  if (least_seq != last_seq) {
    const std::set<int>& behind = kinds.begin()->second;
    finding.verdict = Verdict::order_mismatch;
    finding.sentence =
        fmt::format("ranks ran different numbers of collectives: {}; {} {} behind by {}", joined_words(said, ", "),
                    list_ranks(behind), behind.size() == 1 ? "is" : "are", last_seq - least_seq);
  }
  findings.emplace_back(std::move(finding));
}

/// Whom and what the rule of an event's line names.
void add_named(const ProgramEvent& event, Finding& finding) {
  finding.ranks = event.ranks;
  add_once(finding.hosts, event.host);
  add_once(finding.devices, event.device);
  if (event.rule != nullptr) add_once(finding.rules, event.rule->id);
}

/// The remedy of a line's rule, else the usual one.
std::string remedy_of(const ProgramEvent& event, std::string_view usual) {
  return event.rule == nullptr || event.rule->remedy.empty() ? remedy(usual) : event.rule->remedy;
}

/// Whom an event names, and what its rule says of it.
std::string explained(const ProgramEvent& event, std::string_view usual) {
  std::vector<std::string> who;
  if (!event.ranks.empty()) who.push_back(list_ranks(event.ranks));
  if (!event.device.empty()) who.push_back(event.device);
  if (event.pid >= 0) who.push_back(fmt::format("process {}", event.pid));
  if (!event.host.empty()) who.push_back(event.host);
  return fmt::format("{}{}{}", joined_words(who, ", "), who.empty() ? "" : ": ",
                     event.is_explained() ? event.rule->means : fmt::format("{}: {}", usual, event.text));
}

/// How often work was done after a line, in its file.
std::int64_t steps_after(const LogView& view, const ProgramNote& note) {
  const auto steps = view.book.steps.find(note.file);
  if (steps == view.book.steps.end()) return 0;
  return std::ranges::count_if(steps->second, [&](std::uint64_t line) { return line > note.line; });
}

/// `what`: absent or late.
void find_absent(const LogView& view, const Waiting& waiting, What what, Findings& findings) {
  const auto is_over = [&](const ProgramNote& note) {
    return note.rule->where == RuleWhere::start && (steps_after(view, note) > 0 || view.book.nccl_lines > 0);
  };
  std::set<int> absent;
  const ProgramNote* first = nullptr;
  for (const ProgramNote& note : view.book.program) {
    if (note.what != what || is_over(note)) continue;
    if (first == nullptr || (first->ranks.empty() && !note.ranks.empty())) first = &note;
  }
  if (first == nullptr) return;
  std::vector<std::string> hosts;
  for (const ProgramNote& note : view.book.program) {
    if (note.what != what || note.name != first->name) continue;
    add_once(hosts, note.host);
    for (const int rank : note.ranks) {
      if (!waiting.ranks.contains(rank)) absent.insert(rank);
    }
    for (const auto& [rank, source] : view.rank_map.source_of) {
      if (!note.came.empty() && !contains(note.came, rank)) absent.insert(rank);
    }
  }
  const std::string who = !absent.empty()  ? list_ranks(absent)
                          : !hosts.empty() ? joined_words(hosts, ", ")
                                           : std::string("some ranks");
  Finding finding = make_finding(what == What::late ? Verdict::rank_lagging : Verdict::init_not_joined,
                                 fmt::format("{} did not come to {}", who, first->name), quotes(view, what, 3),
                                 {remedy_of(*first, "did-not-come")});
  add_named(*first, finding);
  finding.ranks.assign(absent.begin(), absent.end());
  finding.hosts = std::move(hosts);
  if (has_any(first->text, {"onnection reset", "roken pipe", "got 0 bytes"})) {
    finding.verdict = Verdict::process_dead;
    finding.sentence = fmt::format("{} went away before {}", list_ranks(absent), first->name);
  }
  findings.emplace_back(std::move(finding));
}

/// The rank that raised it, by elimination if the line names none; -1: not known.
int rank_of(const ProgramEvent& event, const Waiting& waiting) {
  if (!event.ranks.empty()) return event.ranks.front();
  if (waiting.group < 2 || static_cast<int>(waiting.ranks.size()) != waiting.group - 1) return -1;
  int rank = 0;
  while (waiting.ranks.contains(rank)) ++rank;
  return rank;
}

/// The few ranks of the job that did not time out in Gloo, where the others did.
void find_waited_for(const LogView& view, const Waiting& waiting, Findings& findings) {
  std::set<int> others;
  for (const ProgramNote& note : view.book.program) others.insert(note.ranks.begin(), note.ranks.end());
  for (const int rank : waiting.gloos) others.erase(rank);
  if (others.empty() || others.size() >= waiting.gloos.size()) return;
  Finding finding = make_finding(Verdict::rank_lagging,
                                 fmt::format("{} did not come to a collective of Gloo, in which {} timed out",
                                             list_ranks(others), list_ranks(waiting.gloos)),
                                 {}, {remedy("gloo-late")});
  finding.ranks.assign(others.begin(), others.end());
  findings.emplace_back(std::move(finding));
}

/// The verdict that outweighs an end which a lack of resources or a setting may explain, if a line does.
std::optional<Verdict> after_resources(const LogView& view, const ProgramNote& end) {
  const auto decides = [&](const WarningRecord& one) {
    const bool later = end.number < 0 && one.file == end.file && one.line > end.line;  // of a crash
    return one.rule->kind == RuleKind::resource || (one.rule->kind == RuleKind::config && !later);
  };
  const bool reported = std::ranges::any_of(view.book.warnings, decides) || !view.book.kernel.empty();
  return reported ? std::optional(Verdict::config) : std::nullopt;
}

/// A rank that raised and left before others timed out is the one they waited for.
void find_raised(const LogView& view, const Waiting& waiting, Findings& findings) {
  if (waiting.ranks.empty()) return;
  const ProgramNote* trace = nullptr;
  const ProgramNote* raised = nullptr;
  for (const ProgramNote& note : view.book.program) {
    const bool follows = builtin_line_rules().has("consequences", note.text);  // from another's failure
    if (note.what != What::traceback && (note.what != What::exception || follows)) continue;
    if (note.file == waiting.file && note.line >= waiting.line) continue;
    if (!note.ranks.empty() && waiting.ranks.contains(note.ranks.front())) continue;
    const ProgramNote*& kept = note.what == What::traceback ? trace : raised;
    // The last line of a traceback, because that is where it was.
    if (kept == nullptr || note.what == What::traceback) kept = &note;
  }
  const ProgramNote* shown = raised != nullptr ? raised : trace;
  if (shown == nullptr) return;
  const int rank = rank_of(*shown, waiting);
  const std::string who = rank >= 0 ? fmt::format("rank {}", rank) : "a rank that the log does not name";
  Finding finding = make_finding(Verdict::process_dead,
                                 fmt::format("{} raised an exception of its own and left; {} timed out waiting for it",
                                             who, list_ranks(waiting.ranks)),
                                 {}, {remedy("raised")});
  if (rank >= 0) finding.ranks.push_back(rank);
  if (rank >= 0 && shown->ranks.empty()) {
    finding.evidence.emplace_back("the traceback carries no rank: it is " + who +
                                  "'s because all others of the group timed out");
  }
  finding.evidence.push_back(quoted(*shown));
  if (raised == nullptr) finding.missing.emplace_back("the end of the traceback, which says what was raised");
  // Another line may explain what it raised: memory, a setting.
  findings.emplace_back(std::move(finding), after_resources(view, *shown));
}

/// How a process ended, as text, and what to check then.
struct ProgramEnd {
  std::int64_t signal;
  std::string_view name, remedy;
  bool by_itself = false;  ///< or killed silently; codes and SIGABRT follow from earlier lines
};

constexpr ProgramEnd kEndings[] = {{9, "SIGKILL", "killed", true},     {7, "SIGBUS", "bus-error", true},
                                   {11, "SIGSEGV", "core-dump", true}, {4, "SIGILL", "core-dump", true},
                                   {8, "SIGFPE", "core-dump", true},   {6, "SIGABRT", "own-last-lines"},
                                   {0, "a signal", "own-last-lines"}};  // the last stands for all others

/// `number`: an exit code, or minus a signal.
const ProgramEnd& ending_of(std::int64_t number) {
  const auto* known = std::ranges::find(kEndings, -number, &ProgramEnd::signal);
  return *(known != std::end(kEndings) ? known : std::prev(known));
}

Finding finding_of_end(const LogView& view, const ProgramNote& event) {
  const std::int64_t number = event.number;
  const ProgramEnd& ending = ending_of(number);
  const bool oom = event.rule != nullptr && is_out_of_memory(*event.rule);
  const bool unstarted = number == 126 || number == 127;  // of a shell: not executable, not found
  const Verdict verdict = oom ? Verdict::resource : unstarted ? Verdict::config : Verdict::process_dead;
  Finding finding = make_finding(verdict, "", {quoted(event)}, {remedy_of(event, oom ? "job-memory" : ending.remedy)});
  add_named(event, finding);
  const auto is_its = [&](std::uint32_t source) {
    return event.pid >= 0 && process_of(view.book, source).pid == event.pid;
  };
  for (const std::uint32_t source : ranks_that(view, is_its)) {
    if (finding.ranks.empty()) blame(view, std::span(&source, 1), finding);
  }
  const bool one_host = event.host.empty() && view.rank_map.hosts.size() < 2;
  if (finding.ranks.empty() && event.local_rank >= 0 && number != -SIGABRT && one_host) {
    finding.ranks.push_back(event.local_rank);
    finding.evidence.emplace_back("that is its number on its host: its rank, if the job has one host");
  }
  const std::string who = !finding.ranks.empty() ? list_ranks(finding.ranks)
                          : event.pid >= 0       ? fmt::format("process {}", event.pid)
                                                 : std::string("a process");
  const std::string how = number < 0   ? std::string(ending.name)
                          : unstarted  ? fmt::format("exit code {}: the program or a library is not there", number)
                          : number > 0 ? fmt::format("exit code {}", number)
                                       : std::string("an error");
  finding.sentence = oom ? who + " was killed for lack of memory"
                     : number == 0 && event.is_explained()
                         ? explained(event, "")
                         : fmt::format("{}{} ended by {}", who, event.host.empty() ? "" : " on " + event.host, how);
  return finding;
}

/// `what`: host_lost or stalled.
void find_gone(const LogView& view, What what, Findings& findings) {
  const bool lost = what == What::host_lost;
  const auto is_kernels = [](const ProgramNote& one) { return one.rule != nullptr && one.rule->program == "kernel"; };
  // A file server that is silent: what waits for it hangs, and the server is to blame.
  const bool waits = std::ranges::any_of(view.book.program, [&](const ProgramNote& one) {
    return is_kernels(one) && one.what == (lost ? What::stalled : What::host_lost);
  });
  for (const ProgramNote& note : view.book.program) {
    if (note.what != what) continue;
    const bool hangs = !lost || (waits && is_kernels(note));
    Finding finding = make_finding(hangs ? Verdict::process_stopped : Verdict::host_unreachable,
                                   explained(note, lost ? "the launcher lost a host" : "makes no progress"),
                                   {quoted(note)}, {remedy_of(note, lost ? "host-lost" : "stopped-process")});
    add_named(note, finding);
    if (!lost && waits) finding.hosts.clear();
    std::set<std::string> xids;  // of the only GPU that has one, a task that hangs in the kernel may wait
    for (const KernelGroup& one : view.book.kernel) xids.insert(one.device);
    if (!lost && finding.devices.empty() && xids.size() == 1) add_once(finding.devices, *xids.begin());
    findings.emplace_back(std::move(finding));
  }
}

/// Whether a line before an end, or what C++ threw on the next, says what failed: an abort only follows from it.
bool follows_failure(const LogView& view, const ProgramNote& end) {
  const auto is_before = [&](const auto& one, int by = 0) { return one.file == end.file && one.line < end.line + by; };
  const auto warns = [&](const WarningRecord& one) {
    if (!end.ranks.empty()) return one.rule->kind == RuleKind::victim && end.name != kRootCause && is_before(one);
    return one.rule->kind != RuleKind::harmless && is_before(one, 2);
  };
  const auto fails = [&](const ProgramNote& one) {
    return (one.what == What::error || one.what == What::exception) && is_before(one) &&
           (end.ranks.empty() || (one.is_explained() && one.rule->program == "pytorch"));  // its watchdog
  };
  return std::ranges::any_of(view.book.warnings, warns) || std::ranges::any_of(view.book.program, fails);
}

/// How processes ended.
struct Ends {
  std::vector<const ProgramNote*> notes;  ///< the surest to be the first in front
  bool first_is_known = false;
  std::set<int> killed;         ///< ranks of one host, if they are all that ended and rank 0 is not one of them
  bool several_killed = false;  ///< else a launcher ends the rest so: another failed first
  bool all_alike = false;       ///< several ranks at once, on several hosts
};

/// Killed by an unknown sender.
bool is_killed(const ProgramNote* note) {
  return note->number == -SIGKILL && !(note->rule != nullptr && is_out_of_memory(*note->rule));
}

Ends ends_in_order(const LogView& view) {
  Ends ends;
  std::optional<std::size_t> stopped;  // by Slurm, in the file
  for (const ProgramNote& note : view.book.program) {
    if (note.what == What::stopped && note.rule != nullptr && note.rule->program == "slurm") stopped = note.file;
    if (note.what != What::ended || (is_killed(&note) && stopped == note.file)) continue;
    ends.notes.push_back(&note);
    ends.first_is_known = ends.first_is_known || note.name == kRootCause;
  }
  const auto spares_first = [&](const ProgramNote* note) {
    ends.killed.insert(note->ranks.begin(), note->ranks.end());
    return note->host == ends.notes.front()->host && !note->ranks.empty() && (note->number == 0 || is_killed(note));
  };
  const bool several = !ends.first_is_known && std::ranges::count_if(ends.notes, is_killed) > 1;
  if (!several || !std::ranges::all_of(ends.notes, spares_first) || ends.killed.contains(0)) ends.killed.clear();
  ends.several_killed = several && ends.killed.empty();
  const auto as_first = [first = ends.notes.empty() ? nullptr : ends.notes.front()](const ProgramNote* note) {
    return first->ranks.size() > 1 && note->number == first->number && note->host != first->host;
  };
  ends.all_alike = !ends.first_is_known && std::ranges::any_of(ends.notes, as_first);
  // What torchrun takes for the first comes last in its list; and there is one torchrun per host.
  std::ranges::stable_sort(ends.notes, {}, [&](const ProgramNote* note) {
    return std::tuple(note->name != kRootCause, ends.several_killed && is_killed(note), note->ranks.empty(),
                      note->ranks.empty() && note->host.empty(), note->time.empty(), std::string_view(note->time));
  });
  return ends;
}

void find_ends(const LogView& view, const Waiting& waiting, Findings& findings) {
  const Ends ends = ends_in_order(view);
  for (const ProgramNote* note : ends.notes) {
    const std::int64_t number = note->number;
    ProgramNote end = *note;
    if (!ends.killed.empty()) end.ranks = {ends.killed.begin(), ends.killed.end()};
    Finding finding = finding_of_end(view, end);
    const bool timed_out = std::ranges::any_of(finding.ranks, [&](int rank) { return waiting.ranks.contains(rank); });
    // The watchdog ends its process by SIGABRT, and so does the launcher's list of it.
    const bool known = finding.ranks.empty() && (note->pid >= 0 || !finding.hosts.empty());
    if (number == -6 && !known && follows_failure(view, *note)) continue;
    const bool later = note->file == waiting.file && note->line > waiting.line;
    const bool of_many = finding.ranks.size() > 1 && is_killed(note);  // by their launcher
    const bool follows =
        finding.ranks.empty() ? number == -6 || (number < 0 && later) : (number == -6 || of_many) && later;
    if (!waiting.ranks.empty() && (timed_out || follows || (number > 0 && later && !waiting.gloos.empty()))) continue;
    if (ends.all_alike || (ends.several_killed && is_killed(note))) {
      finding.ranks.clear();
      finding.hosts.clear();
      finding.missing.emplace_back("the first failure: several ended alike, as processes do that a launcher kills");
    }
    const bool missed = !waiting.ranks.empty() && !finding.ranks.empty();
    std::optional<Verdict> after;
    if (finding.verdict == Verdict::process_dead) {
      // Other pods wait for one that crashes.
      const auto is_here = [&](const ProgramNote* one) { return one->host.empty() || one->host == note->host; };
      const bool is_pod =
          note->rule != nullptr && note->rule->program == "kubernetes" && std::ranges::all_of(ends.notes, is_here);
      // What a launcher kills after the first failure.
      const std::int64_t first = ends.notes.front()->number;
      const bool unnamed = finding.ranks.empty() && finding.hosts.empty() && !ends.notes.front()->ranks.empty();
      const bool is_rest = (ends.several_killed || unnamed) && is_killed(note) && first != 0 && first != -SIGKILL;
      const bool by_itself = ending_of(number).by_itself;
      const bool is_cause =
          ends.first_is_known ? note == ends.notes.front() : (by_itself && !is_rest) || missed || is_pod;
      after = !is_cause    ? Verdict::stuck_inside
              : number > 0 ? Verdict::order_mismatch  // other lines may explain it
                           : after_resources(view, *note);
    }
    findings.emplace_back(std::move(finding), after);
  }
}

/// Of the first kinds of rules.
constexpr Verdict kOfKind[] = {Verdict::hw_fault, Verdict::host_unreachable, Verdict::resource, Verdict::config};

/// The first exception, else line, that no rule explains but whose words say what kind of failure it is; along with
/// findings that complain of a peer, only an exception before them; with one that a process ended, only an exception
/// that says more than that.
std::pair<const ProgramNote*, const LineRule*> first_by_words(const LogView& view,
                                                              std::span<const ProgramNote* const> notes, bool alone,
                                                              bool ended) {
  std::pair<const ProgramNote*, const LineRule*> first{};
  std::tuple<int, std::size_t, std::uint64_t> its_place;
  for (const ProgramNote* note : notes) {
    const auto complains = [&](const WarningRecord& one) {
      return one.rule->kind == RuleKind::victim && one.file == note->file && one.line > note->line;
    };
    const bool raised = note->what == What::exception;
    const bool counts = alone || (raised && (ended || std::ranges::any_of(view.book.warnings, complains)));
    if (!counts || note->is_explained() || steps_after(view, *note) > 3) continue;
    const bool follows = raised && builtin_line_rules().has("consequences", note->text);
    if (follows && ended) continue;
    for (const LineRule* rule : builtin_line_rules().matches(note->text, RuleWhere::unexplained)) {
      if ((follows || ended) && rule->kind == RuleKind::ended) break;
      if (ended && rule->priority < 0) continue;
      // "RuntimeError: x" says less than an error before it.
      const int level = raised && rule->priority > -2 ? 0 : raised || mentions(note->text, "ERROR") ? 1 : 2;
      const std::tuple place(level, note->file, note->line);
      if (first.first == nullptr || place < its_place)
        std::tie(first, its_place) = std::pair(std::pair(note, rule), place);
      break;
    }
  }
  return first;
}

/// Lines that report an unknown failure, possible causes first.
void find_other_errors(const LogView& view, Findings& findings) {
  std::vector<const ProgramNote*> notes;
  const auto order = [](const ProgramNote* note) {
    const bool after = builtin_line_rules().has("after-timeout", note->text);
    return std::tuple(after, note->name != kLastError, note->what != What::exception,
                      note->what == What::stopped || note->what == What::traceback);
  };
  const bool alone = findings.empty();
  const bool ended = std::ranges::any_of(findings, [](const Finding& one) { return one.verdict != Verdict::unknown; });
  for (const ProgramNote& note : view.book.program) {
    const What what = note.what;
    if (what != What::exception && what != What::error && what != What::traceback && what != What::stopped) continue;
    if ((alone || !std::get<0>(order(&note))) && !is_survived(view, note)) notes.push_back(&note);
  }
  if (notes.empty()) return;
  std::ranges::stable_sort(notes, [&](const auto* a, const auto* b) { return order(a) < order(b); });
  Finding finding;
  std::vector<int> ranks;
  bool plugin = false;
  for (const ProgramNote* note : notes) {
    if (finding.evidence.size() < (alone ? 4U : 2U)) add_once(finding.evidence, quoted(*note));
    plugin = plugin || mentions(lower_case(note->text), "netplugin");
    if (note->what != What::stopped) add_new(ranks, note->ranks);
  }
  finding.sentence = fmt::format("the log reports a failure{}, but not its cause: {}",
                                 ranks.empty() ? "" : " on " + list_ranks(ranks), finding.evidence.front());
  // A word of failure is explained by a line some lines below it.
  const auto explains = [&](const ProgramNote* note) {
    return note->rule != nullptr && !note->rule->means.empty() && note->file == notes.front()->file &&
           note->line - notes.front()->line <= kReachOfRule;
  };
  const auto explained_by = std::ranges::find_if(notes, explains);
  const ProgramEvent& first = *(explained_by == notes.end() ? notes.front() : *explained_by);
  const auto [shown, rule] = first_by_words(view, notes, alone, ended);
  if (ended && rule == nullptr) return;
  const bool raised = rule != nullptr && shown->what == What::exception;
  if (!raised && first.rule != nullptr && !first.rule->means.empty()) {
    finding.sentence = explained(first, "");
    const bool writer = alone && first.rule->blame == RuleBlame::writer;  // else it may only report
    if (writer || first.rule->blame == RuleBlame::named) add_named(first, finding);
    finding.rules = {first.rule->id};
    finding.next.push_back(remedy_of(first, "first-error"));
  } else if (rule != nullptr) {
    LineFacts named = builtin_line_rules().captures(*rule, shown->text);
    const auto kind = static_cast<std::size_t>(rule->kind);
    finding.verdict = kind < std::size(kOfKind) ? kOfKind[kind] : Verdict::process_dead;
    finding.sentence = fmt::format("{}: {}", rule->means, quoted(*shown));
    // What is set wrong mostly is so everywhere.
    if (rule->kind != RuleKind::config && ranks.size() == 1) finding.ranks = shown->ranks;
    add_once(finding.hosts, named["host"]);
    if (rule->kind == RuleKind::ended || rule->kind == RuleKind::hardware) add_once(finding.hosts, shown->host);
    add_once(finding.devices, named["device"]);
    finding.rules = {rule->id};
    finding.next.push_back(rule->remedy);
  }
  if (plugin) {
    finding.ranks = ranks;
    finding.evidence.emplace_back("that is a function of the external network plugin");
    finding.missing.emplace_back("the plugin's own log on that rank");
    finding.next.push_back(remedy("without-plugin"));
  }
  finding.missing.emplace_back("the lines before the first error, of all ranks; NCCL_DEBUG=INFO in all of them");
  finding.next.push_back(remedy("first-error"));
  Finding& said_by = findings.emplace_back(std::move(finding)).said_by;
  for (const ProgramNote* note : notes) {
    if (rule == nullptr || !contains(builtin_line_rules().matches(note->text, RuleWhere::unexplained), rule)) continue;
    add_new(said_by.ranks, note->ranks);
    add_once(said_by.hosts, note->host);
  }
}

/// The first warning that no rule knows but whose words say what kind of failure it is.
void find_warned_by_words(const LogView& view, Findings& findings) {
  for (const WarningRecord* record : causes_first(view.book.warnings)) {
    if (!record->rule->id.empty()) continue;
    for (const LineRule* rule : builtin_line_rules().matches(record->example, RuleWhere::unexplained)) {
      if (rule->kind > RuleKind::config) continue;
      const std::string said = fmt::format("{}: {}: \"{}\"", writer_of(view, *record), rule->means, record->example);
      findings.emplace_back(make_finding(kOfKind[static_cast<std::size_t>(rule->kind)], said, {}, {rule->remedy}));
      findings.back().rules = {rule->id};
      blame(view, record->sources, findings.back().said_by);
      return;
    }
  }
}

/// Unwinding and aborts of NCCL whose warning is not in the log.
void find_unwinding(const LogView& view, Findings& findings) {
  const std::vector<std::uint32_t> failed =
      ranks_that(view, [&](std::uint32_t source) { return view.book.sources[source].failures > 0; });
  const bool at_exit = view.book.facts.contains({"works", "the job finished"}) ||
                       (view.book.return_codes.empty() && view.book.facts.contains({"works", "steps are done"}));
  if (failed.empty() || !findings.empty() || at_exit) return;
  std::vector<std::string> evidence;
  for (const auto& [code, times] : view.book.return_codes) {
    if (evidence.size() < 3) evidence.push_back(fmt::format("return code {} ({} lines)", code.first, times));
  }
  if (evidence.empty()) evidence.emplace_back("\"Abort COMPLETE\"");
  findings.emplace_back(
      make_finding(Verdict::unknown,
                   fmt::format("{} failed or aborted in NCCL, but the warning that says why is not in {}",
                               list_sources(view.rank_map, failed), name_files(view.files)),
                   std::move(evidence), {remedy("first-warning")}, {"the lines with NCCL WARN"}));
}

}  // namespace

void find_in_program(const LogView& view, Findings& findings) {
  const Waiting waiting = find_waiting(view);
  find_fingerprints(view, findings);
  find_absent(view, waiting, What::absent, findings);
  find_absent(view, waiting, What::late, findings);
  find_waited_for(view, waiting, findings);
  find_raised(view, waiting, findings);
  find_gone(view, What::host_lost, findings);
  find_gone(view, What::stalled, findings);
  find_ends(view, waiting, findings);
}

bool is_survived(const LogView& view, const ProgramNote& note) {
  const LineRules& rules = builtin_line_rules();
  const LineRule* rule = note.rule;
  const auto steps = view.book.steps.find(note.file);
  if (rule == nullptr || rule->kind != RuleKind::error || !rule->program.empty() || rules.has("grave", note.text))
    return false;
  // What a service missed on its way up, it does without; "2026-", "slurm", "time=": of the same log.
  const auto up = view.book.came_up.find(note.file);
  const bool went_up = up != view.book.came_up.end() && note.line < up->second.first;
  if (went_up && (note.text.starts_with(up->second.second) || rules.has("informing", note.text))) return true;
  const std::int64_t after = steps_after(view, note);
  // In the middle of the work, ranks that do not know yet of a failure may report a few steps.
  return after > 0 && after >= (rules.has("informing", note.text) ? 1 : note.line < steps->second.front() ? 2 : 4);
}

void find_other_failures(const LogView& view, Findings& findings) {
  find_other_errors(view, findings);
  find_warned_by_words(view, findings);
  find_unwinding(view, findings);
}

}  // namespace busbar
