#include "driver/diagnose/job_log.h"

#include "common/base/lists.h"
#include "common/base/text.h"
#include "driver/diagnose/job_book.h"
#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

namespace busbar {
namespace {

struct OpCountRule {
  bool reliable = false;
  bool unknown = true;
};

/// Up to 2.26 NCCL's opCount is the number of the call.
OpCountRule op_count_rule(const JobBook& book) {
  OpCountRule rule{true, true};
  for (const Process& process : book.processes) {
    const std::string_view version = process.nccl;
    const std::size_t dot = version.find('.');
    if (dot == std::string_view::npos) continue;
    int major = 0, minor = 0;
    std::from_chars(version.data(), version.data() + dot, major);
    std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
    rule.unknown = false;
    if (major > 2 || (major == 2 && minor > 26)) rule.reliable = false;
  }
  if (rule.unknown) rule.reliable = false;
  return rule;
}

LogView view_log(const JobBook& book, std::span<const LogFile> files, std::span<const RasEvidence> ras) {
  LogView view{book, files, ras, map_ranks(book, files), {}, {}, {}, {}, {}};
  view.comms = join_communicators(book, view.rank_map);
  const OpCountRule rule = op_count_rule(book);
  for (const JoinedComm& comm : view.comms) {
    view.alignments.push_back(align_calls(book, comm, rule.reliable, rule.unknown));
    view.divergences.push_back(first_divergence(view.alignments.back(), book.words));
    view.lags.push_back(find_lag(book, view.alignments.back()));
  }
  view.cycles = find_cycles(book, view.rank_map, view.comms, view.alignments);
  return view;
}

}  // namespace

std::vector<std::uint32_t> actors_of(const CallAlignment& alignment, std::span<const std::uint32_t> streams) {
  std::vector<std::uint32_t> actors;
  for (const std::uint32_t stream : streams) actors.push_back(alignment.streams[stream].member->actor);
  return actors;
}

std::string name_files(std::span<const LogFile> files) {
  if (files.size() == 1) return "the file " + files.front().path.filename().string();
  return fmt::format("{} files", files.size());
}

JobLog::JobLog() : book_(std::make_unique<JobBook>()) {}
JobLog::JobLog(JobLog&&) noexcept = default;
JobLog& JobLog::operator=(JobLog&&) noexcept = default;
JobLog::~JobLog() = default;

void JobLog::add(const LogLine& line, std::size_t file, std::uint64_t number) { book_->add(line, file, number); }

void JobLog::merge(JobLog&& other) { book_->merge(std::move(*other.book_)); }

std::size_t JobLog::bytes_held() const { return book_->bytes_held(); }

namespace {

constexpr std::size_t kMostEvidence = 5;

Finding nothing_read(const LogView& view) {
  Finding finding;
  finding.sentence = fmt::format("no line of NCCL, of PyTorch's watchdog or of a kernel in {}", name_files(view.files));
  finding.missing.emplace_back("NCCL's own log of all ranks");
  finding.next.emplace_back("busbar diagnose --help-capture");
  return finding;
}

Finding nothing_wrong(const LogView& view) {
  Finding finding;
  finding.verdict = Verdict::ok;
  const std::size_t seen = view.rank_map.rank_actors.size();
  const int nranks = view.rank_map.nranks;
  finding.sentence = seen == 0 ? "nothing wrong, in lines that tell no rank"
                               : fmt::format("nothing wrong in what {} of {} say{}", seen,
                                             nranks > 0 ? fmt::format("{}", counted(nranks, "rank")) : "the ranks",
                                             seen == 1 ? "s" : "");
  std::size_t compared = 0;
  std::uint64_t calls = 0;
  for (std::size_t i = 0; i < view.comms.size(); ++i) {
    const CallAlignment& alignment = view.alignments[i];
    if (alignment.how == CallAlignment::How::none) continue;
    ++compared;
    for (const PlacedCalls& placed : alignment.streams) calls += placed.calls->size();
    if (!view.lags[i]) continue;
    finding.evidence.push_back(
        fmt::format("{}: {} {} ahead by up to {} calls, as is usual where calls are enqueued", view.comms[i].name,
                    list_actors(view.rank_map, actors_of(alignment, view.lags[i]->at_front)),
                    view.lags[i]->at_front.size() == 1 ? "is" : "are", view.lags[i]->front - view.lags[i]->least));
  }
  if (compared > 0) {
    finding.evidence.insert(finding.evidence.begin(),
                            fmt::format("{} calls on {} agree", calls, counted(compared, "communicator")));
    finding.missing.emplace_back(
        "whether the last calls ended, which NCCL does not log: if the job hangs, it is inside the last call");
    finding.next.emplace_back("if it hangs: PyTorch's watchdog lines, or echo 'verbose status' | nc localhost 28028");
  }
  return finding;
}

void note_missing(const LogView& view, Diagnosis& diagnosis) {
  const int seen = static_cast<int>(view.rank_map.rank_actors.size());
  if (view.rank_map.nranks > seen && seen > 0) {
    diagnosis.missing.push_back(fmt::format("{} of {} ranks do not speak in {}", view.rank_map.nranks - seen,
                                            view.rank_map.nranks, name_files(view.files)));
  }
  const bool calls = std::ranges::any_of(
      view.book.instances, [](const CommInstance& one) { return one.calls.size() + one.sends + one.receives > 0; });
  if (!calls && view.book.nccl_lines > 0) {
    diagnosis.missing.emplace_back("calls: the subsystem COLL was not on (NCCL_DEBUG_SUBSYS=INIT,NET,COLL)");
  }
  for (std::size_t i = 0; i < view.comms.size(); ++i) {
    if (!view.comms[i].ambiguous) continue;
    diagnosis.missing.push_back(view.comms[i].name +
                                ": several of this size cannot be told apart (commId is in Init lines from 2.16 on)");
  }
  for (const LogFile& file : view.files) {
    if (!file.trouble.empty()) diagnosis.missing.push_back(file.path.filename().string() + ": " + file.trouble);
  }
  if (view.book.warnings.not_kept() > 0) {
    diagnosis.missing.push_back(
        fmt::format("{} warnings of further shapes were not kept", view.book.warnings.not_kept()));
  }
}

template <typename T>
void add_new(std::vector<T>& list, const std::vector<T>& more, std::size_t most) {
  for (const T& one : more) {
    if (list.size() < most && !contains(list, one)) list.push_back(one);
  }
}

}  // namespace

Diagnosis JobLog::conclude(std::vector<LogFile> files, std::span<const RasEvidence> ras) const {
  const LogView view = view_log(*book_, files, ras);
  Findings findings;
  find_in_kernel(view, findings);
  find_lost_processes(view, findings);
  find_silent_ranks(view, findings);
  find_in_warnings(view, findings);
  find_in_settings(view, findings);
  find_in_init(view, findings);
  find_in_calls(view, findings);
  find_in_torch(view, findings);
  const bool ras_answered = std::ranges::any_of(ras, [](const RasEvidence& one) { return one.answered; });
  if (findings.empty()) {
    findings.push_back(view.book.understood == 0 && !ras_answered ? nothing_read(view) : nothing_wrong(view));
  }
  // The order of the enumerators is that of the checks.
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) { return a.verdict < b.verdict; });
  Diagnosis diagnosis;
  diagnosis.verdict = findings.front().verdict;
  diagnosis.sentence = findings.front().sentence;
  for (const Finding& finding : findings) {
    std::vector<std::string> lines = finding.evidence;
    lines.insert(lines.begin(), finding.sentence);
    // What the sentence says already is not evidence for it.
    std::erase_if(lines, [&](const std::string& line) { return diagnosis.sentence.find(line) != std::string::npos; });
    add_new(diagnosis.evidence, lines, kMostEvidence);
    add_new(diagnosis.missing, finding.missing, 8);
    // What follows from the cause goes away with it, and its remedies would lead astray.
    if (finding.verdict == diagnosis.verdict) add_new(diagnosis.next, finding.next, 4);
  }
  note_missing(view, diagnosis);
  fill_tables(view, diagnosis);
  fill_facts(view, diagnosis);
  std::set<int> torch_ranks;
  for (const auto& [key, state] : view.book.torch.states()) torch_ranks.insert(key.second);
  diagnosis.torch_ranks = static_cast<int>(torch_ranks.size());
  diagnosis.files = std::move(files);
  return diagnosis;
}

}  // namespace busbar
