#include "common/base/enum_words.h"
#include "common/base/text.h"
#include "common/watch/ras.h"
#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <map>
#include <set>

namespace busbar {
namespace {

/// Some of an alignment's streams, by the names of their ranks.
std::string list_streams(const LogView& view, const CallAlignment& alignment, std::span<const std::uint32_t> streams) {
  return list_sources(view.rank_map, sources_of(alignment, streams));
}

/// How calls were matched, in the order of CallAlignment::How.
constexpr std::array<std::string_view, 5> kMatched{
    "calls are counted from the beginning of the communicator",
    "not all logs begin with the communicator: calls are matched by opCount",
    "calls are matched by the number that they were recorded with",
    "not all logs begin with the communicator: calls are matched where they agree most, and counted from the first "
    "in the logs",
    ""};

std::string_view alignment_note(const CallAlignment& alignment) {
  const bool holes = alignment.how == CallAlignment::How::op_counts && alignment.streams.front().holes;
  return holes ? "lines are missing in the logs: calls are matched by opCount" : word(kMatched, alignment.how);
}

Finding divergence_finding(const LogView& view, const AlignedComm& comm) {
  const Divergence& divergence = *comm.divergence;
  const CallAlignment& alignment = comm.alignment;
  const std::string who = list_streams(view, alignment, divergence.deviating);
  const std::string others = list_streams(view, alignment, divergence.majority);
  const std::string number = call_number(alignment, divergence.key);
  Finding finding;
  finding.verdict = divergence.order ? Verdict::order_mismatch : Verdict::arg_mismatch;
  if (divergence.not_before) {
    finding.sentence = fmt::format("{} called differently from {} between calls {} and {} of {}", who, others,
                                   call_number(alignment, *divergence.not_before), number, comm.name);
    finding.missing.emplace_back("the calls in full: an excerpt of the logs around that place");
  } else if (divergence.order) {
    finding.sentence =
        fmt::format("{} made the same calls as {} in another order from call {} of {} on: {} first, others {}", who,
                    others, number, comm.name, divergence.deviating_call, divergence.majority_call);
  } else if (divergence.tie) {
    finding.sentence = fmt::format("{} and {} differ in call {} of {}, and neither is the majority: {}", who, others,
                                   number, comm.name, divergence.differs);
  } else {
    finding.sentence = fmt::format("{} called with {} in call {} of {}", who, divergence.differs, number, comm.name);
  }
  blame_ranks(view, sources_of(alignment, divergence.deviating), finding);
  if (divergence.tie) blame_ranks(view, sources_of(alignment, divergence.majority), finding);
  if (!divergence.not_before) {
    finding.evidence.push_back(fmt::format("{}: {}", who, divergence.deviating_call));
    finding.evidence.push_back(fmt::format("{}: {}", others, divergence.majority_call));
  }
  if (divergence.shift != 0) {
    finding.evidence.push_back(fmt::format("the sequence of {} is shifted by {}: it {} {}", who,
                                           counted(std::abs(divergence.shift), "call"),
                                           divergence.shift > 0 ? "skipped" : "made",
                                           divergence.shift > 0 ? "what the others called" : "calls of its own"));
  }
  finding.evidence.emplace_back(alignment_note(alignment));
  finding.next.push_back(fmt::format(
      "run py-spy dump --pid on {} and on one of the others: their stacks part at the branch that depends on "
      "the rank or its data",
      who));
  return finding;
}

/// By source, the communicators in whose calls it waits for others.
using WaitsIn = std::map<std::uint32_t, std::set<const AlignedComm*>>;

WaitsIn who_waits(const LogView& view) {
  WaitsIn waiting;
  for (const AlignedComm& comm : view.comms) {
    if (!comm.lag || !comm.lag->waited_for) continue;
    for (const std::uint32_t stream : comm.lag->at_front) {
      const PlacedCalls& placed = comm.alignment.streams[stream];
      if (is_open(view.book, placed, comm.lag->front - 1)) waiting[placed.member->source].insert(&comm);
    }
  }
  return waiting;
}

/// A rank that waits in a call of another communicator is late here because of that: not the one to ask if another
/// lags too.
CallLag without_victims(const WaitsIn& waiting, const AlignedComm& comm) {
  const std::vector<PlacedCalls>& streams = comm.alignment.streams;
  CallLag lag = *comm.lag;
  std::vector<std::uint32_t> others = lag.behind;
  std::erase_if(others, [&](std::uint32_t stream) {
    const auto known = waiting.find(streams[stream].member->source);
    return known != waiting.end() && known->second != std::set{&comm};
  });
  if (others.empty() || others.size() == lag.behind.size()) return lag;
  lag.behind = std::move(others);
  const auto end_of = [&](std::uint32_t stream) { return streams[stream].end(); };
  lag.least = end_of(std::ranges::min(lag.behind, {}, end_of));
  return lag;
}

Finding lag_finding(const LogView& view, const WaitsIn& waiting, const AlignedComm& comm) {
  const CallLag lag = without_victims(waiting, comm);
  const CallAlignment& alignment = comm.alignment;
  std::vector<std::uint32_t> last;
  for (const std::uint32_t stream : lag.behind) {
    if (alignment.streams[stream].end() == lag.least) last.push_back(stream);
  }
  const std::vector<std::uint32_t> behind = sources_of(alignment, lag.behind);
  Finding finding;
  finding.verdict = Verdict::rank_lagging;
  blame_ranks(view, behind, finding);
  const PlacedCalls& front = alignment.streams[lag.at_front.front()];
  const PlacedCalls& slowest = alignment.streams[last.front()];
  const bool called = slowest.calls->size() > 0;
  const std::string front_number = call_number(alignment, lag.front - 1);
  const std::string last_number = call_number(alignment, lag.least - 1);
  const CommInstance& instance = view.book.instances[slowest.member->instance];
  const std::string who = list_sources(view.rank_map, behind);
  const std::string others = list_streams(view, alignment, lag.at_front);
  const std::string call = fmt::format("call {} of {} ({})", front_number, comm.name,
                                       describe_call(*front.find(lag.front - 1), view.book.words));
  const std::string so_far = called ? "last call " + last_number : "no call at all before";
  finding.sentence = instance.ends_only
                         ? fmt::format("{} did not come out of {}, which {} completed; {}", who, call, others, so_far)
                         : fmt::format("{} never made {}, in which {} wait{}; {}", who, call, others,
                                       lag.at_front.size() == 1 ? "s" : "", so_far);
  if (called) {
    finding.evidence.push_back(fmt::format("last call of {}: {} {}{}", list_streams(view, alignment, last), last_number,
                                           describe_call(*slowest.find(lag.least - 1), view.book.words),
                                           instance.last_site.empty() ? "" : ", made in " + instance.last_site));
  }
  finding.evidence.push_back(
      fmt::format("{} of {} ranks seen reached call {}", lag.at_front.size(), alignment.streams.size(), front_number));
  const int nranks = comm.nranks, absent = nranks - static_cast<int>(alignment.streams.size());
  if (absent > 0) {
    finding.missing.push_back(fmt::format("calls of {} of the {} ranks of {}", absent, nranks, comm.name));
  }
  finding.evidence.emplace_back(alignment_note(alignment));
  finding.next.push_back(remedy(instance.ends_only ? "inspector-late" : "what-keeps-them"));
  return finding;
}

/// Whether ranks whose logs lack their ends would be late otherwise.
bool is_cut_off(const LogView& view, const AlignedComm& comm) {
  const CallLag& lag = *comm.lag;
  const auto left = [&](std::uint32_t stream) {
    return view.book.instances[comm.alignment.streams[stream].member->instance].left();
  };
  return lag.behind.empty() && lag.at_front.size() > lag.cut_off.size() && !std::ranges::all_of(lag.at_front, left);
}

/// A rank that seems late only because the end of its log is missing.
Finding cut_off_finding(const LogView& view, const AlignedComm& comm) {
  const CallLag& lag = *comm.lag;
  const CallAlignment& alignment = comm.alignment;
  const std::string who = list_streams(view, alignment, lag.cut_off);
  return make_finding(
      Verdict::unknown,
      fmt::format("{} came to call {} of {}; the log of {} ends earlier, at a missing stretch, so it does not show "
                  "whether it is late",
                  list_streams(view, alignment, lag.at_front), call_number(alignment, lag.front - 1), comm.name, who),
      {}, {"check in the whole log of " + who + " whether it made that call"}, {"the end of the log of " + who});
}

/// All ranks seen made the same last call, and on some it is known not to have ended.
void find_open_call(const LogView& view, const AlignedComm& comm, Findings& findings) {
  const CallAlignment& alignment = comm.alignment;
  std::vector<std::uint32_t> inside, out;
  for (std::uint32_t i = 0; i < alignment.streams.size(); ++i) {
    const PlacedCalls& placed = alignment.streams[i];
    (is_open(view.book, placed, placed.end() - 1) ? inside : out).push_back(i);
  }
  if (inside.empty()) return;
  const PlacedCalls& example = alignment.streams[inside.front()];
  const std::string call = fmt::format("{} of {} ({})", call_number(alignment, example.end() - 1), comm.name,
                                       describe_call(*example.find(example.end() - 1), view.book.words));
  const std::string who = list_streams(view, alignment, inside);
  const std::string& site = view.book.instances[example.member->instance].last_site;
  Finding finding;
  if (!site.empty()) finding.evidence.push_back("made in " + site);
  const int absent = comm.nranks - static_cast<int>(alignment.streams.size());
  if (absent > 0) {
    finding.sentence = fmt::format("{} wait{} in {}; no dump is given of {} other rank{}", who,
                                   inside.size() == 1 ? "s" : "", call, absent, absent == 1 ? "" : "s");
    finding.missing.emplace_back("the dumps of the other ranks: whether they came to that call");
    finding.next.push_back(remedy("other-dumps"));
  } else {
    finding.verdict = Verdict::stuck_inside;
    finding.sentence = out.empty() ? fmt::format("all ranks ({}) entered {} and none came out", who, call)
                                   : fmt::format("all ranks entered {}; {} did not come out, {} did", call, who,
                                                 list_streams(view, alignment, out));
    finding.next.push_back(remedy("dump-again"));
  }
  findings.push_back(std::move(finding));
}

struct TorchRank {
  int rank = -1;
  const TorchState* state = nullptr;
};

using TorchGroup = std::vector<TorchRank>;

/// The group with the most members.
template <typename Groups>
auto largest(const Groups& groups) {
  return std::ranges::max_element(groups,
                                  [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
}

std::string call_of(const TorchState& state) {
  return fmt::format("{} SeqNum {}", state.op.empty() ? "collective" : state.op, state.timed_out_seq);
}

/// Whether a rank continued after its watchdog's message.
bool went_on(const LogView& view, const TorchRank& one) {
  if (one.state->last_completed >= one.state->timed_out_seq) return true;
  const auto source = view.rank_map.source_of.find(one.rank);
  if (source == view.rank_map.source_of.end()) return false;
  const LogSource& known = view.book.sources[source->second];
  return known.last_call_file == one.state->file && known.last_call_line > one.state->line;
}

/// Operations in which all ranks have the same number of elements.
bool uniform(const std::string& op) {
  return !mentions(op, "ALLTOALL") && !mentions(op, "SEND") && !mentions(op, "RECV") && op != "GATHER" &&
         op != "SCATTER" && op != "COALESCED";
}

/// Ranks that called something else at the same SeqNum.
bool find_mismatch(const TorchGroup& timed, Findings& findings) {
  std::map<std::int64_t, std::map<std::pair<std::string, std::int64_t>, std::vector<int>>> calls;
  for (const TorchRank& one : timed) {
    // A cut line has no size.
    if (one.state->op.empty() || (uniform(one.state->op) && one.state->numel_in < 0)) continue;
    const std::int64_t numel = uniform(one.state->op) ? one.state->numel_in : -1;
    calls[one.state->timed_out_seq][{one.state->op, numel}].push_back(one.rank);
  }
  for (const auto& [seq, kinds] : calls) {
    if (kinds.size() < 2) continue;
    const auto usual = largest(kinds);
    for (const auto& [call, ranks] : kinds) {
      if (call == usual->first) continue;
      const std::string differs =
          call.first != usual->first.first
              ? fmt::format("{} instead of {}", call.first, usual->first.first)
              : fmt::format("count {} instead of {} in {}", call.second, usual->first.second, call.first);
      Finding finding = make_finding(
          Verdict::arg_mismatch, fmt::format("{} called {} at SeqNum {}", list_ranks(ranks), differs, seq),
          {fmt::format("PyTorch's watchdog: {} {} (NumelIn {}); {} {} (NumelIn {})", list_ranks(ranks), call.first,
                       call.second, list_ranks(usual->second), usual->first.first, usual->first.second)},
          {remedy("compare-stacks")});
      finding.ranks = ranks;
      findings.emplace_back(std::move(finding));
      return true;
    }
  }
  return false;
}

Finding lagging(const std::vector<int>& behind, const std::vector<int>& waiting, const TorchState& waits,
                std::string evidence) {
  Finding finding = make_finding(Verdict::rank_lagging,
                                 fmt::format("{} did not reach {}, in which {} timed out", list_ranks(behind),
                                             call_of(waits), list_ranks(waiting)),
                                 {std::move(evidence)}, {remedy("what-keeps-them")});
  finding.ranks = behind;
  if (!waits.example.empty()) finding.evidence.push_back("\"" + waits.example + "\"");
  return finding;
}

/// All that timed out continued afterwards.
Finding slow(const TorchGroup& timed) {
  std::vector<int> ranks;
  for (const TorchRank& one : timed) ranks.push_back(one.rank);
  return make_finding(
      Verdict::slow_not_hung,
      fmt::format("{} timed out in {} and continued afterwards: slow, not hung", list_ranks(ranks),
                  call_of(*timed.front().state)),
      {"after the watchdog's message there are further calls, or it says that the collective completed"},
      {remedy("longer-timeout")});
}

/// A timeout whose cause the watchdog's lines do not show.
Finding timed_out(const std::vector<int>& waiting, const TorchState& waits) {
  Finding finding;
  std::string state;
  if (waits.last_enqueued >= 0) state += fmt::format("; last enqueued {}", waits.last_enqueued);
  if (waits.last_completed >= 0) state += fmt::format(", last completed {}", waits.last_completed);
  finding.evidence.push_back(
      fmt::format("PyTorch's watchdog: {} timed out in {}{}", list_ranks(waiting), call_of(waits), state));
  if (!waits.example.empty()) finding.evidence.push_back("\"" + waits.example + "\"");
  return finding;
}

/// `group`: its size, or -1; `absent`: its ranks that are known to be missing.
Finding waiting_for_absent(const LogView& view, const std::vector<int>& waiting, const TorchState& waits,
                           const RankList& absent) {
  const int group = group_size(waits);
  const std::string others =
      !absent.empty()                                 ? list_ranks(absent)
      : group == static_cast<int>(waiting.size()) + 1 ? fmt::format("the other rank of the group of {}", group)
      : group > 1 ? fmt::format("the other {} of the group's {} ranks", group - static_cast<int>(waiting.size()), group)
                  : std::string("the other ranks");
  Finding finding = timed_out(waiting, waits);
  finding.sentence = fmt::format("{} timed out in {}; nothing of {} is in {}", list_ranks(waiting), call_of(waits),
                                 others, name_files(view.files));
  finding.missing.push_back("the logs of " + others + ": whether they came to that collective");
  if (view.book.facts.contains({"ray_dedup", "lines of other ranks left out"})) {
    finding.missing.emplace_back("the lines that Ray left out (\"[repeated 15x across cluster]\"): RAY_DEDUP_LOGS=0");
  }
  finding.next.push_back(
      fmt::format("read the output of {}: one that does not time out at that SeqNum is late or gone (py-spy "
                  "dump --pid, dmesg there); if all do, it is the network",
                  others));
  finding.next.push_back(remedy("trace-buffer"));
  return finding;
}

/// Some ranks of a group of unknown size: others may be late, or all may be inside.
Finding of_unknown_size(const LogView& view, const std::vector<int>& waiting, const TorchState& waits) {
  Finding finding = timed_out(waiting, waits);
  finding.sentence = fmt::format("{} timed out in {}; how many ranks that group has is not in {}", list_ranks(waiting),
                                 call_of(waits), name_files(view.files));
  finding.missing.emplace_back("the output of all ranks: one that does not time out at that SeqNum is late or gone");
  finding.next = {remedy("trace-buffer"), remedy("test-network")};
  return finding;
}

Finding stuck_inside(const LogView& view, const std::vector<int>& ranks, const TorchState& waits) {
  Finding finding = timed_out(ranks, waits);
  finding.verdict = Verdict::stuck_inside;
  finding.next = {remedy("test-network"), ras_advice(nccl_version_of(view))};
  finding.sentence = fmt::format("all ranks ({}) entered {} and none came out", list_ranks(ranks), call_of(waits));
  return finding;
}

/// No line says what timed out, but ranks got the signal that something did: idle ranks are not in it.
void judge_signalled(const LogView& view, const TorchGroup& all, Findings& findings) {
  std::vector<int> idle, busy;
  std::int64_t idle_at = -1, busy_at = -1;
  const TorchState* example = nullptr;
  for (const TorchRank& one : all) {
    const TorchState& state = *one.state;
    if (!state.signalled && state.last_enqueued < 0) continue;
    example = &state;
    const bool done = state.last_enqueued == state.last_completed;
    (done ? idle : busy).push_back(one.rank);
    std::int64_t& at = done ? idle_at : busy_at;
    at = std::max(at, state.last_enqueued);
  }
  if (example == nullptr) return;
  Finding finding;
  finding.evidence.push_back("\"" + example->example + "\"");
  if (!idle.empty() && !busy.empty() && idle_at < busy_at) {
    finding.verdict = Verdict::rank_lagging;
    finding.ranks = idle;
    finding.sentence = fmt::format("{} enqueued nothing after work {}, while {} wait{} in work {}", list_ranks(idle),
                                   idle_at, list_ranks(busy), busy.size() == 1 ? "s" : "", busy_at);
    finding.next.push_back(remedy("what-keeps-them"));
  } else {
    finding.sentence = fmt::format(
        "a collective timed out, {}; which one, and which rank is late, is not in {}",
        idle.empty() ? list_ranks(busy) + " had work that did not end" : list_ranks(idle) + " had nothing left to do",
        name_files(view.files));
    finding.missing.emplace_back(
        "the watchdog's lines of all ranks (\"Watchdog caught collective operation timeout\")");
    finding.next.push_back(remedy("all-outputs"));
  }
  findings.push_back(std::move(finding));
}

bool is_default_group(const std::string& name) { return name.empty() || name == "0" || mentions(name, "default_pg"); }

void judge_group(const LogView& view, const std::string& name, const TorchGroup& all, Findings& findings) {
  TorchGroup timed;
  std::map<std::int64_t, std::vector<int>> by_seq;
  for (const TorchRank& one : all) {
    if (one.state->timed_out_seq < 0) continue;
    timed.push_back(one);
    by_seq[one.state->timed_out_seq].push_back(one.rank);
  }
  if (timed.empty()) {
    judge_signalled(view, all, findings);
    return;
  }
  if (std::ranges::all_of(timed, [&](const TorchRank& one) { return went_on(view, one); })) {
    findings.push_back(slow(timed));
    return;
  }
  if (find_mismatch(timed, findings)) return;
  const auto usual = largest(by_seq);
  const auto waits =
      std::ranges::find_if(timed, [&](const TorchRank& one) { return one.state->timed_out_seq == usual->first; });
  std::vector<int> behind;
  std::set<int> spoke;
  std::int64_t least = usual->first;
  for (const TorchRank& one : all) {
    spoke.insert(one.rank);
    const std::int64_t reached = one.state->timed_out_seq >= 0 ? one.state->timed_out_seq : one.state->last_enqueued;
    if (reached < 0 || reached >= usual->first) continue;
    behind.push_back(one.rank);
    least = std::min(least, reached);
  }
  if (!behind.empty()) {
    findings.push_back(
        lagging(behind, usual->second, *waits->state,
                fmt::format("PyTorch's watchdog: {} came only to SeqNum {}", list_ranks(behind), least)));
    return;
  }
  std::set<int> silent;
  RankList absent;
  const bool of_all = is_default_group(name);
  const int size = group_size(*waits->state);
  const int most_told = spoke.empty() ? 0 : std::min(*spoke.rbegin(), INT_MAX - 1) + 1;
  const int nranks = std::max({view.rank_map.nranks, most_told, of_all ? size : -1});
  // A group smaller than the job need not have all ranks.
  const bool all_of_group = size > 0 && static_cast<int>(spoke.size()) >= size;
  if (!all_of_group && (static_cast<int>(spoke.size()) * 2 > nranks || (of_all && !name.empty()))) {
    for (const auto& [rank, source] : view.rank_map.source_of) {
      if (rank < nranks && !spoke.contains(rank) && !view.lost.may_lack_end(source)) silent.insert(rank);
    }
    absent = missing_ranks(std::vector<int>(spoke.begin(), spoke.end()), nranks);
  }
  if (!silent.empty()) {
    findings.push_back(
        lagging({silent.begin(), silent.end()}, usual->second, *waits->state,
                fmt::format("PyTorch's watchdog reported on {}, not on {}", list_ranks(spoke), list_ranks(silent))));
    return;
  }
  const bool some_absent = !absent.empty() || spoke.size() < 2 || (size > 0 && static_cast<int>(spoke.size()) < size);
  const bool complete = all_of_group || static_cast<int>(spoke.size()) >= nranks;
  findings.push_back(some_absent ? waiting_for_absent(view, usual->second, *waits->state, absent)
                     : complete  ? stuck_inside(view, usual->second, *waits->state)
                                 : of_unknown_size(view, usual->second, *waits->state));
}

}  // namespace

std::string describe_divergence(const LogView& view, const AlignedComm& comm) {
  const Divergence& divergence = *comm.divergence;
  const CallAlignment& alignment = comm.alignment;
  const std::string deviating = list_streams(view, alignment, divergence.deviating);
  const std::string majority = list_streams(view, alignment, divergence.majority);
  if (divergence.not_before) {
    return fmt::format("{}: between calls {} and {} {} called differently from {}", comm.name,
                       call_number(alignment, *divergence.not_before), call_number(alignment, divergence.key),
                       deviating, majority);
  }
  std::string text = fmt::format("{}: call {} of {} is {}, of {} {}", comm.name, call_number(alignment, divergence.key),
                                 deviating, divergence.deviating_call, majority, divergence.majority_call);
  if (divergence.tie) text += " (no majority)";
  return text;
}

void find_in_calls(const LogView& view, Findings& findings) {
  for (const DeadlockCycle& cycle : view.cycles) {
    Finding finding = make_finding(Verdict::order_mismatch,
                                   (cycle.transfers ? "deadlock: " : "deadlock over communicators: ") + cycle.text,
                                   {cycle.inversion ? "all made the calls, in opposite orders"
                                                    : "each waits for a call that the other makes only afterwards"},
                                   {remedy("same-order")});
    blame_ranks(view, cycle.sources, finding);
    findings.emplace_back(std::move(finding));
  }
  const WaitsIn waiting = who_waits(view);
  for (const AlignedComm& comm : view.comms) {
    if (comm.divergence) {
      findings.emplace_back(divergence_finding(view, comm));  // later calls cannot be compared any more
    } else if (!comm.lag) {
      find_open_call(view, comm, findings);
    } else if (comm.lag->waited_for) {
      findings.emplace_back(lag_finding(view, waiting, comm));
    } else if (is_cut_off(view, comm)) {
      findings.emplace_back(cut_off_finding(view, comm));
    }
  }
}

void find_in_torch(const LogView& view, Findings& findings) {
  std::map<std::string, TorchGroup> groups;
  for (const auto& [key, state] : view.book.torch.states) {
    // A line that was cut in front has no rank.
    if (key.second >= 0) groups[key.first].push_back({key.second, &state});
  }
  // Some lines do not name the group: if there is only one, they are about that.
  if (groups.size() == 2 && groups.count("") == 1) {
    std::map<int, TorchState> merged;
    TorchGroup whole;
    for (const auto& [name, ranks] : groups) {
      for (const TorchRank& one : ranks) merge_torch_state(merged[one.rank], *one.state);
    }
    for (const auto& [rank, state] : merged) whole.push_back({rank, &state});
    judge_group(view, groups.rbegin()->first, whole, findings);
    return;
  }
  for (const auto& [name, ranks] : groups) judge_group(view, name, ranks, findings);
}

}  // namespace busbar
