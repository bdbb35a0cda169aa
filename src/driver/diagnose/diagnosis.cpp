#include "driver/diagnose/diagnosis.h"

#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/evidence/job_snapshot.h"
#include "common/machine/mapped_nccl.h"
#include "common/watch/ras.h"
#include "driver/diagnose/job_book.h"
#include "driver/diagnose/log_findings.h"
#include "driver/rules/setting_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace busbar {
namespace {

/// Whether NCCL's opCount is the number of the call, as up to 2.26; nullopt: its version is not known.
std::optional<bool> counts_calls(const JobBook& book) {
  std::optional<bool> counts;
  for (const Process& process : book.processes) {
    const int version = nccl_version_number(process.nccl);
    if (version > 0) counts = counts.value_or(true) && version < 22700;
  }
  return counts;
}

LogView view_log(const JobBook& book, std::span<const LogFile> files, std::span<const RasEvidence> ras) {
  LogView view{book, files, ras, map_ranks(book, files), {}, {}, {}};
  std::vector<JoinedComm> joined = join_communicators(book, view.rank_map);
  view.lost = find_lost_lines(book, view.rank_map, joined);
  const std::optional<bool> counts = counts_calls(book);
  view.comms.reserve(joined.size());  // alignments point to their members
  for (JoinedComm& one : joined) {
    AlignedComm& comm = view.comms.emplace_back(AlignedComm{std::move(one), {}, {}, {}});
    comm.alignment = align_calls(book, comm, view.lost, counts);
    comm.divergence = first_divergence(comm.alignment, book.words);
    comm.lag = find_lag(book, comm.alignment, view.lost);
  }
  view.cycles = find_cycles(book, view.rank_map, view.comms);
  return view;
}

constexpr std::size_t kMostEvidence = 5;

/// A kernel's log reports every failure that the kernel knows of; that of a job that stands still may not.
bool is_of_kernel(const LogView& view) {
  const auto corrected = [](const WarningRecord& one) { return !one.devices.empty(); };
  const JobBook& book = view.book;
  const std::uint64_t prompts = view.files.size() + 1;  // may stand before
  return book.nccl_lines == 0 && book.kernel_lines > 2 && book.other_lines <= prompts &&
         book.other_lines * 10 <= book.kernel_lines && std::ranges::none_of(book.warnings, corrected);
}

Finding nothing_read(const LogView& view) {
  return make_finding(
      Verdict::unknown,
      fmt::format("no line of NCCL, of PyTorch's watchdog or of a kernel in {}", name_files(view.files)), {},
      {"busbar diagnose --help-capture"}, {"NCCL's own log of all ranks"});
}

/// The first value of a fact; null: it is not in the logs.
const std::string* first_fact(const LogView& view, const std::string& key) {
  const auto fact = view.book.facts.lower_bound({key, ""});
  return fact != view.book.facts.end() && fact->first.first == key ? &fact->first.second : nullptr;
}

/// What shows that something went right; empty if nothing does.
std::vector<std::string> signs_of_health(const LogView& view) {
  std::vector<std::string> signs;
  for (const JoinedComm& comm : view.comms) {
    std::vector<std::uint32_t> complete, ended;
    for (const CommMember& member : comm.members) {
      if (member.instance->completed) complete.push_back(member.source);
      if (member.instance->left()) ended.push_back(member.source);
    }
    if (!complete.empty())
      signs.push_back(fmt::format("{}: Init COMPLETE of {}", comm.name, list_sources(view.rank_map, complete)));
    const auto met = [](const CommMember& member) { return member.instance->stage > InitStage::started; };
    if (complete.empty() && std::ranges::any_of(comm.members, met))
      signs.push_back(comm.name + ": the ranks met (bootstrap)");
    if (!ended.empty())
      signs.push_back(fmt::format("{}: ended cleanly on {}", comm.name, list_sources(view.rank_map, ended)));
  }
  const auto add_facts = [&](const LineRules::FactWords& shown) {
    for (const auto& [key, words] : shown) {
      if (const std::string* fact = first_fact(view, key)) signs.push_back(fmt::format("{} {}", words, *fact));
    }
  };
  add_facts(builtin_line_rules().health());
  if (nccl_version_of(view) < kSaysInit) add_facts(builtin_line_rules().early_health());
  if (std::ranges::any_of(view.book.sources, [](const LogSource& one) { return one.timings.total >= 0; }))
    signs.emplace_back("initialization completed: its timings are logged");
  const auto is_called = [](const CommInstance& one) { return one.used && one.ncalls() > 0; };
  if (std::ranges::any_of(view.book.instances, is_called))
    signs.emplace_back("communicators are in use: calls are logged");
  return signs;
}

/// What makes a working job slow: people ask that of such a log.
void note_slowness(const LogView& view, Finding& finding) {
  if (view.book.facts.contains({"network", "Socket"})) {
    finding.evidence.emplace_back("the network is Socket: between hosts data go by TCP through the CPU, not by RDMA");
    finding.next.push_back(remedy("slow-network"));
  }
  constexpr double kSlowBootstrap = 5;  // [s]
  double slowest_s = 0, total_s = 0;
  for (const LogSource& source : view.book.sources) {
    const double bootstrap_s = std::max(source.bootstrap_s, source.timings.bootstrap);
    if (bootstrap_s <= slowest_s) continue;
    slowest_s = bootstrap_s;
    total_s = source.timings.total;
  }
  if (slowest_s < kSlowBootstrap) return;
  finding.evidence.push_back(
      fmt::format("the bootstrap took {:.1f} s{}: ranks waited for one that came late, or for its address", slowest_s,
                  total_s > 0 ? fmt::format(" of {:.1f} s of initialization", total_s) : ""));
  finding.next.push_back(remedy("slow-bootstrap"));
}

/// Settings that are no error but rarely what was meant.
void note_settings(const LogView& view, Finding& finding) {
  std::set<std::string> notes;
  for (const Process& process : view.book.processes) {
    for (const auto& [name, value] : process.env) {
      if (has_empty_element(name, value))
        notes.insert(fmt::format("{}={} has an empty element: is a name missing?", name, value));
      if (asks_for_nvls(name, value) && view.book.facts.contains({"nvls_channels", "0"}))
        notes.insert(
            fmt::format("{}={} requests NVLS, but there are 0 nvls channels: this host or NCCL does not have it "
                        "(NCCL_DEBUG_SUBSYS=NVLS says why), so NCCL takes other algorithms",
                        name, value));
    }
  }
  finding.evidence.insert(finding.evidence.end(), notes.begin(), notes.end());
}

Finding no_sign(const LogView& view) {
  Finding finding = make_finding(
      Verdict::unknown,
      fmt::format(
          "no line of {} reports a failure, but none shows health either: no Init COMPLETE, no connection, no call",
          name_files(view.files)),
      {fmt::format("{} were understood, and none is an error", counted(view.book.understood, "line"))},
      {remedy("whole-logs")}, {"the rest of the log, and those of the other ranks"});
  for (const WarningRecord& one : view.book.warnings) {
    if (one.rule->kind != RuleKind::harmless || one.devices.empty()) continue;
    if (finding.rules.empty()) finding.sentence = fmt::format("{}: {}", fmt::join(one.devices, ", "), one.rule->means);
    finding.devices.insert(finding.devices.end(), one.devices.begin(), one.devices.end());
    add_once(finding.rules, one.rule->id);
  }
  note_settings(view, finding);
  return finding;
}

Finding nothing_wrong(const LogView& view) {
  std::vector<std::string> signs = signs_of_health(view);
  const bool ras_well = std::ranges::any_of(view.ras, [](const RasEvidence& one) { return one.well; });
  // Wrong results of a benchmark outrank missing rows.
  const std::string* table = first_fact(view, "table");
  const bool has_rows = std::ranges::any_of(signs, [](const auto& sign) { return sign.starts_with("a benchmark "); });
  if (signs.empty() && is_of_kernel(view)) signs.emplace_back("only a kernel's log, which reports nothing wrong");
  const bool is_bad = table != nullptr && (table->starts_with("found") || !has_rows);
  if (is_bad || (signs.empty() && !ras_well)) {
    Finding none = no_sign(view);
    if (is_bad) none.sentence = "a benchmark " + *table;
    return none;
  }
  Finding finding;
  finding.verdict = Verdict::ok;
  finding.evidence = std::move(signs);
  if (finding.evidence.size() > 3) finding.evidence.resize(3);
  for (const RasEvidence& one : view.ras) {
    for (const std::string& line : one.lines) {
      if (finding.evidence.size() < 4) finding.evidence.push_back("RAS: " + line);
    }
  }
  for (const ProgramNote& note : view.book.program) {
    if (is_survived(view, note)) finding.evidence.push_back(fmt::format("work went on after \"{}\"", note.text));
  }
  note_slowness(view, finding);
  note_settings(view, finding);
  const int nranks = view.rank_map.nranks;
  std::size_t seen = view.rank_map.rank_sources.size();
  // A rank that a torn line named is one more.
  if (nranks > 0) seen = std::min(seen, static_cast<std::size_t>(nranks));
  finding.sentence = seen == 0 ? "nothing wrong, in lines that name no rank"
                               : fmt::format("nothing wrong in what {} of {} say{}", seen,
                                             nranks > 0 ? fmt::format("{}", counted(nranks, "rank")) : "the ranks",
                                             seen == 1 ? "s" : "");
  std::size_t compared = 0;
  std::uint64_t calls = 0;
  for (const AlignedComm& comm : view.comms) {
    const std::vector<PlacedCalls>& streams = comm.alignment.streams;
    if (streams.size() < 2) continue;
    ++compared;
    for (const PlacedCalls& placed : streams) calls += placed.calls->size();
    if (!comm.lag || comm.lag->behind.empty()) continue;
    finding.evidence.push_back(
        fmt::format("{}: {} {} ahead by up to {} calls, as is usual where calls are enqueued", comm.name,
                    list_sources(view.rank_map, sources_of(comm.alignment, comm.lag->at_front)),
                    comm.lag->at_front.size() == 1 ? "is" : "are", comm.lag->front - comm.lag->least));
  }
  if (compared > 0) {
    finding.evidence.insert(finding.evidence.begin(),
                            fmt::format("{} calls on {} agree", calls, counted(compared, "communicator")));
    finding.missing.emplace_back(
        "whether the last calls ended, which NCCL does not log: if the job hangs, it is inside the last call");
    finding.next.push_back(ras_advice(nccl_version_of(view)));
  }
  if (finding.next.empty()) finding.next.push_back(remedy("hangs-all-the-same"));
  return finding;
}

void note_missing(const LogView& view, Diagnosis& diagnosis) {
  const int seen = static_cast<int>(view.rank_map.rank_sources.size());
  if (view.rank_map.nranks > seen && seen > 0) {
    diagnosis.missing.push_back(fmt::format("{} of {} ranks log nothing in {}", view.rank_map.nranks - seen,
                                            view.rank_map.nranks, name_files(view.files)));
  }
  const bool calls = std::ranges::any_of(view.book.instances, [](const CommInstance& one) { return one.ncalls() > 0; });
  // Of no use if something else is known to be broken.
  const bool needs_calls = diagnosis.verdict > Verdict::config;
  if (!calls && view.book.nccl_lines > 0 && needs_calls)
    diagnosis.missing.emplace_back("calls: the subsystem COLL was not on (NCCL_DEBUG_SUBSYS=INIT,NET,COLL)");
  if (view.lost.any()) {
    diagnosis.missing.push_back(
        fmt::format("lines in the middle of the logs ({}): more may have happened there", view.lost.sign));
  }
  const std::vector<std::uint32_t> cut_off =
      ranks_that(view, [&](std::uint32_t source) { return view.lost.ends_early[source]; });
  if (!cut_off.empty()) {
    diagnosis.missing.push_back(fmt::format("a stretch of the log after {}: it may have come further than logged",
                                            list_sources(view.rank_map, cut_off)));
  }
  for (const JoinedComm& comm : view.comms) {
    if (!comm.ambiguous) continue;
    diagnosis.missing.push_back(comm.name +
                                ": several of this size cannot be told apart (commId is in Init lines from 2.16 on)");
  }
  for (const LogFile& file : view.files) {
    if (!file.trouble.empty()) diagnosis.missing.push_back(file.path.filename().string() + ": " + file.trouble);
  }
  if (view.book.warnings_not_kept > 0) {
    diagnosis.missing.push_back(
        fmt::format("{} warnings of further shapes were not kept", view.book.warnings_not_kept));
  }
}

/// A failure whose line names no rank: of the one that ended by itself, or first (its launcher says so), or raised.
void name_who_ended(const LogView& view, const Findings& findings, Diagnosis& diagnosis) {
  const bool of_rank = diagnosis.verdict == Verdict::resource || diagnosis.verdict == Verdict::config;
  const bool by_words = diagnosis.rules == std::vector<std::string>{"words-ended"};
  if ((!of_rank && !by_words) || !diagnosis.ranks.empty()) return;
  std::vector<int> ended, raised;
  std::vector<std::string> hosts;
  const bool first_is_known = std::ranges::count(view.book.program, kRootCause, &ProgramNote::name) > 0;
  for (const LogFinding& finding : findings) {
    const bool other = !diagnosis.hosts.empty() && !finding.hosts.empty() && finding.hosts != diagnosis.hosts;
    // A number within a host is of one of several.
    const bool local =
        diagnosis.verdict == Verdict::config && mentions(joined_words(finding.evidence, " "), "local_rank");
    if (finding.verdict != Verdict::process_dead || by_words || other || local || (first_is_known && !ended.empty()))
      continue;
    add_new(ended, finding.ranks, 2);
    add_new(hosts, finding.hosts, 2);
  }
  for (const ProgramNote& note : view.book.program) {
    const bool first = !diagnosis.hosts.empty() || (by_words && !raised.empty());  // the others' follow from it
    if (note.what == RuleKind::traceback && !first) add_new(raised, note.ranks, 2);
  }
  if (ended.empty()) ended = std::move(raised);
  // A limit is a host's; a wrong setting, mostly all hosts'.
  if (ended.empty() && hosts.size() == 1 && diagnosis.hosts.empty() && diagnosis.verdict == Verdict::resource) {
    diagnosis.hosts = hosts;
    diagnosis.evidence.push_back(fmt::format("only a process of {} ended by itself", hosts.front()));
  }
  if (ended.size() != 1 || diagnosis.hosts.size() > 1) return;
  diagnosis.ranks = ended;
  if (diagnosis.hosts.empty() && hosts.size() == 1) diagnosis.hosts = hosts;
  diagnosis.evidence.push_back(fmt::format("{}rank {} {}", by_words || first_is_known ? "" : "only ", ended.front(),
                                           by_words ? "raised first" : "ended by itself"));
}

/// Whom the lines that decide name, where their rules know nobody: the first line that does. `place`: no rank.
void name_whom_lines_name(const Findings& findings, Diagnosis& diagnosis, bool place) {
  std::vector<std::string> lines;
  for (const LogFinding& one : findings) {
    if (one.verdict == diagnosis.verdict) add_new(lines, one.evidence, kMostEvidence);
  }
  for (const std::string& line : lines) {
    if (!diagnosis.ranks.empty() || !diagnosis.hosts.empty() || !diagnosis.devices.empty()) return;
    if (diagnosis.verdict == Verdict::host_unreachable) diagnosis.hosts = addresses_in(line);
    std::erase_if(diagnosis.hosts, is_local);
    if (!diagnosis.hosts.empty()) return;
    const auto rules = builtin_line_rules().matches(line);
    if (!rules.empty() && rules.front()->kind == RuleKind::victim) continue;
    LineFacts whom = builtin_line_rules().facts_in("whom", line);
    if (const auto rank = number_of<int>(whom["rank"]); rank && !place) diagnosis.ranks = {*rank};
    add_once(diagnosis.hosts, whom["host"]);
    if (diagnosis.verdict == Verdict::hw_fault || place) add_once(diagnosis.devices, whom["device"]);
  }
}

/// The writers of what names nobody: where others of the job did not write it, or a host has a limit of its own.
void name_writers(const LogView& view, const Finding& said_by, bool of_host, Diagnosis& diagnosis) {
  if (!diagnosis.ranks.empty() || !diagnosis.hosts.empty() || !diagnosis.devices.empty()) return;
  const bool limit = diagnosis.verdict == Verdict::resource, dead = diagnosis.verdict == Verdict::process_dead;
  std::vector<std::uint32_t> broken;  // the one process whose communicators broke, after a fault of a kernel
  for (const WarningRecord& one : view.book.warnings) {
    if (dead && one.rule->kind == RuleKind::fallout) add_new(broken, one.sources, 2);
  }
  if (Finding named; broken.size() == 1) {
    blame(view, broken, named);
    std::tie(diagnosis.ranks, diagnosis.hosts) = std::tie(named.ranks, named.hosts);
  }
  if (!limit && diagnosis.verdict != Verdict::config && !contains(diagnosis.rules, "words-ended")) return;
  std::set<int> ranks;
  std::set<std::string> hosts = view.rank_map.hosts;
  std::vector<std::string> complain = said_by.hosts;
  for (const auto& [rank, source] : view.rank_map.source_of) ranks.insert(rank);
  for (const ProgramNote& note : view.book.program) {
    ranks.insert(note.ranks.begin(), note.ranks.end());
    if (!note.host.empty()) hosts.insert(note.host);
    if (said_by.hosts.empty()) add_once(complain, note.host);
  }
  if (of_host && complain.empty() && hosts.size() == 1) add_new(complain, hosts);  // of the only host there is
  const bool not_all = !ranks.empty() && static_cast<int>(said_by.ranks.size()) <= *ranks.rbegin();
  if (said_by.ranks.size() == 1 || not_all) diagnosis.ranks = said_by.ranks;
  if (limit || complain.size() < hosts.size() || hosts.size() == 1) diagnosis.hosts = std::move(complain);
}

}  // namespace

std::vector<std::uint32_t> sources_of(const CallAlignment& alignment, std::span<const std::uint32_t> streams) {
  return mapped(streams, [&](std::uint32_t stream) { return alignment.streams[stream].member->source; });
}

std::string name_files(std::span<const LogFile> files) {
  if (files.size() == 1) return "the file " + files.front().path.filename().string();
  return fmt::format("{} files", files.size());
}

int nccl_version_of(const LogView& view) {
  int oldest = 0;
  const auto take = [&](int version) {
    if (version > 0 && (oldest == 0 || version < oldest)) oldest = version;
  };
  for (const Process& process : view.book.processes) take(nccl_version_number(process.nccl));
  for (const RasEvidence& ras : view.ras) take(ras.nccl_version);
  return oldest;
}

Diagnosis JobBook::conclude(std::vector<LogFile> files, std::span<const RasEvidence> ras) {
  flush();
  const LogView view = view_log(*this, files, ras);
  Findings findings;
  find_in_kernel(view, findings);
  find_in_ras(view, findings);
  find_in_program(view, findings);
  find_silent_ranks(view, findings);
  find_in_warnings(view, findings);
  find_in_settings(view, findings);
  find_in_init(view, findings);
  find_in_calls(view, findings);
  find_in_torch(view, findings);
  // Exit codes follow from what an earlier line may say.
  const auto may_follow = [](const LogFinding& one) {
    return one.verdict == Verdict::unknown || (one.verdict == Verdict::process_dead && one.weighs_after);
  };
  if (std::ranges::all_of(findings, may_follow)) find_other_failures(view, findings);
  find_in_stacks(view, findings);
  find_doubts_of_ras(view, findings);
  if (findings.empty()) {
    findings.push_back(view.book.understood == 0 && ras.empty() && !is_of_kernel(view) ? nothing_read(view)
                                                                                       : nothing_wrong(view));
  }
  weigh(findings);
  const auto weight = [](const LogFinding& one) { return weight_of(one.verdict, one.weighs_after); };
  Diagnosis diagnosis;
  diagnosis.verdict = findings.front().verdict;
  diagnosis.sentence = findings.front().sentence;
  for (const LogFinding& finding : findings) {
    std::vector<std::string> lines = finding.evidence;
    lines.insert(lines.begin(), finding.sentence);
    // The sentence is no evidence for itself.
    std::erase_if(lines, [&](const std::string& line) { return diagnosis.sentence.find(line) != std::string::npos; });
    add_new(diagnosis.evidence, lines, kMostEvidence);
    add_new(diagnosis.missing, finding.missing, 8);
    // What follows from the cause goes away with it, and its remedies would mislead.
    if (finding.verdict != diagnosis.verdict) continue;
    add_new(diagnosis.next, finding.next, 4);
    // The first process that ended made the others end.
    if (weight(finding) != weight(findings.front()) ||
        (finding.verdict == Verdict::process_dead && &finding != findings.data()))
      continue;
    add_new(diagnosis.ranks, finding.ranks);
    add_new(diagnosis.hosts, finding.hosts);
    add_new(diagnosis.devices, finding.devices);
    add_new(diagnosis.rules, finding.rules);
  }
  bool nobody = diagnosis.verdict == Verdict::ok, by_words = false, of_host = diagnosis.verdict == Verdict::resource;
  for (const LineRule& rule : builtin_line_rules().all()) {
    if (!contains(diagnosis.rules, rule.id)) continue;
    nobody = nobody || rule.blame == RuleBlame::nobody;
    of_host = of_host || rule.blame == RuleBlame::writer;
    by_words = by_words || (rule.where == RuleWhere::unexplained && rule.kind == RuleKind::config);
  }
  // What the program did not accept is rather of a host or device than of one rank.
  if (!nobody && !by_words) name_who_ended(view, findings, diagnosis);
  if (!nobody) name_whom_lines_name(findings, diagnosis, by_words || diagnosis.verdict == Verdict::host_unreachable);
  if (!nobody) name_writers(view, findings.front().said_by, of_host, diagnosis);
  if (by_words && diagnosis.hosts.empty() && diagnosis.devices.empty()) name_who_ended(view, findings, diagnosis);
  std::erase_if(diagnosis.hosts, is_local);
  note_missing(view, diagnosis);
  fill_tables(view, diagnosis);
  fill_facts(view, diagnosis);
  std::set<int> torch_ranks;
  for (const auto& [key, state] : view.book.torch.states) torch_ranks.insert(key.second);
  diagnosis.torch_ranks = static_cast<int>(torch_ranks.size());
  diagnosis.files = std::move(files);
  return diagnosis;
}

}  // namespace busbar
