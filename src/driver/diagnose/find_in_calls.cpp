#include "common/base/enum_words.h"
#include "common/base/lists.h"
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
  const bool holes = alignment.how == CallAlignment::How::op_counts && !alignment.certain;
  return holes ? "lines are missing in the logs: calls are matched by opCount" : word(kMatched, alignment.how);
}

Finding divergence_finding(const LogView& view, const AlignedComm& comm) {
  const Divergence& divergence = *comm.divergence;
  const CallAlignment& alignment = comm.alignment;
  const std::string who = list_streams(view, alignment, divergence.deviating);
  Finding finding = make_finding(
      divergence.order ? Verdict::order_mismatch : Verdict::arg_mismatch, describe_divergence(view, comm),
      {fmt::format("{}: {}", who, divergence.deviating_call),
       fmt::format("{}: {}", list_streams(view, alignment, divergence.majority), divergence.majority_call)});
  blame_ranks(view, sources_of(alignment, divergence.deviating), finding);
  if (divergence.tie) blame_ranks(view, sources_of(alignment, divergence.majority), finding);
  if (divergence.shift != 0) {
    finding.evidence.push_back(
        fmt::format("the sequence of {} is shifted by {}: it {}", who, counted(std::abs(divergence.shift), "call"),
                    divergence.shift > 0 ? "skipped what the others called" : "made calls of its own"));
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
      if (is_open(placed, comm.lag->front - 1)) waiting[placed.member->source].insert(&comm);
    }
  }
  return waiting;
}

/// A rank that waits in a call of another communicator is late here because of that: not to be asked if others lag.
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
  const CommInstance& instance = *slowest.member->instance;
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
bool is_cut_off(const AlignedComm& comm) {
  const CallLag& lag = *comm.lag;
  const auto left = [&](std::uint32_t stream) { return comm.alignment.streams[stream].member->instance->left(); };
  const bool many = comm.alignment.how == CallAlignment::How::sequence || lag.at_front.size() > lag.cut_off.size();
  return lag.behind.empty() && many && !lag.cut_off.empty() && !std::ranges::all_of(lag.at_front, left);
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
    (is_open(placed, placed.end() - 1) ? inside : out).push_back(i);
  }
  if (inside.empty()) return;
  const PlacedCalls& example = alignment.streams[inside.front()];
  const std::string call = fmt::format("{} of {} ({})", call_number(alignment, example.end() - 1), comm.name,
                                       describe_call(*example.find(example.end() - 1), view.book.words));
  const std::string who = list_streams(view, alignment, inside);
  const std::string& site = example.member->instance->last_site;
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

/// What PyTorch's watchdog reported of the ranks of one process group.
using TorchGroup = std::map<int, TorchState>;

/// The group with the most members.
template <typename Groups>
auto largest(const Groups& groups) {
  return std::ranges::max_element(groups, {}, [](const auto& group) { return group.second.size(); });
}

std::string call_of(const TorchState& state) {
  return fmt::format("{} SeqNum {}", state.op.empty() ? "collective" : state.op, state.timed_out_seq);
}

/// Whether a rank continued after its watchdog's message.
bool went_on(const LogView& view, int rank, const TorchState& state) {
  if (state.last_completed >= state.timed_out_seq) return true;
  const auto source = view.rank_map.source_of.find(rank);
  if (source == view.rank_map.source_of.end()) return false;
  const LogSource& known = view.book.sources[source->second];
  return known.last_call_file == state.file && known.last_call_line > state.line;
}

/// Operations in which all ranks have the same number of elements.
bool uniform(const std::string& op) {
  return !mentions(op, "ALLTOALL") && !mentions(op, "SEND") && !mentions(op, "RECV") && op != "GATHER" &&
         op != "SCATTER" && op != "COALESCED";
}

/// Ranks that called something else at the same SeqNum.
std::optional<Finding> find_mismatch(const TorchGroup& timed) {
  std::map<std::int64_t, std::map<std::pair<std::string, std::int64_t>, std::vector<int>>> calls;
  for (const auto& [rank, state] : timed) {
    // A cut line has no size.
    if (state.op.empty() || (uniform(state.op) && state.numel_in < 0)) continue;
    calls[state.timed_out_seq][{state.op, uniform(state.op) ? state.numel_in : -1}].push_back(rank);
  }
  for (const auto& [seq, kinds] : calls) {
    if (kinds.size() < 2) continue;
    const auto most = largest(kinds);
    const auto& [usual, others] = *most;
    const auto& [call, ranks] = most == kinds.begin() ? *std::next(most) : *kinds.begin();
    const std::string differs =
        call.first != usual.first ? fmt::format("{} instead of {}", call.first, usual.first)
                                  : fmt::format("count {} instead of {} in {}", call.second, usual.second, call.first);
    Finding finding =
        make_finding(call.first != usual.first ? Verdict::order_mismatch : Verdict::arg_mismatch,
                     fmt::format("{} called {} at SeqNum {}", list_ranks(ranks), differs, seq),
                     {fmt::format("PyTorch's watchdog: {} {} (NumelIn {}); {} {} (NumelIn {})", list_ranks(ranks),
                                  call.first, call.second, list_ranks(others), usual.first, usual.second)},
                     {remedy("compare-stacks")});
    finding.ranks = ranks;
    if (ranks.size() == others.size()) add_new(finding.ranks, others);  // no majority: either may be wrong
    return finding;
  }
  return std::nullopt;
}

/// `waiting` timed out in a call to which others did not come.
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

/// A timeout for which the watchdog's lines name nobody.
Finding timed_out(const std::vector<int>& waiting, const TorchState& waits, Verdict verdict, std::string sentence,
                  std::vector<std::string> next, std::vector<std::string> missing = {}) {
  std::string state;
  if (waits.last_enqueued >= 0) state += fmt::format("; last enqueued {}", waits.last_enqueued);
  if (waits.last_completed >= 0) state += fmt::format(", last completed {}", waits.last_completed);
  Finding finding = make_finding(
      verdict, std::move(sentence),
      {fmt::format("PyTorch's watchdog: {} timed out in {}{}", list_ranks(waiting), call_of(waits), state)},
      std::move(next), std::move(missing));
  if (!waits.example.empty()) finding.evidence.push_back("\"" + waits.example + "\"");
  return finding;
}

/// `absent`: ranks of the group that are known to be missing.
Finding waiting_for_absent(const LogView& view, const std::vector<int>& waiting, const TorchState& waits,
                           const RankList& absent) {
  const int group = group_size(waits), unheard = group - static_cast<int>(waiting.size());
  const std::string others = !absent.empty() ? list_ranks(absent)
                             : unheard == 1  ? fmt::format("the other rank of the group of {}", group)
                             : group > 1     ? fmt::format("the other {} of the group's {} ranks", unheard, group)
                                             : std::string("the other ranks");
  Finding finding = timed_out(
      waiting, waits, Verdict::unknown,
      fmt::format("{} timed out in {}; nothing of {} is in {}", list_ranks(waiting), call_of(waits), others,
                  name_files(view.files)),
      {fmt::format("read the output of {}: one that does not time out at that SeqNum is late or gone (py-spy dump "
                   "--pid, dmesg there); if all do, it is the network",
                   others),
       remedy("trace-buffer")},
      {"the logs of " + others + ": whether they came to that collective"});
  if (view.book.facts.contains({"ray_dedup", "lines of other ranks left out"}))
    finding.missing.emplace_back("the lines that Ray left out (\"[repeated 15x across cluster]\"): RAY_DEDUP_LOGS=0");
  return finding;
}

/// No line says what timed out, but ranks got the signal that something did: idle ranks are not in it.
std::optional<Finding> judge_signalled(const LogView& view, const TorchGroup& all) {
  std::vector<int> idle, busy;
  std::int64_t idle_at = -1, busy_at = -1;
  const TorchState* example = nullptr;
  for (const auto& [rank, state] : all) {
    if (!state.signalled && state.last_enqueued < 0) continue;
    example = &state;
    const bool done = state.last_enqueued == state.last_completed;
    (done ? idle : busy).push_back(rank);
    std::int64_t& at = done ? idle_at : busy_at;
    at = std::max(at, state.last_enqueued);
  }
  if (example == nullptr) return std::nullopt;
  Finding finding = make_finding(Verdict::unknown, "", {"\"" + example->example + "\""});
  if (!idle.empty() && !busy.empty() && idle_at < busy_at) {
    finding.verdict = Verdict::rank_lagging;
    finding.ranks = idle;
    finding.sentence = fmt::format("{} enqueued nothing after work {}, while {} wait{} in work {}", list_ranks(idle),
                                   idle_at, list_ranks(busy), busy.size() == 1 ? "s" : "", busy_at);
    finding.next.push_back(remedy("what-keeps-them"));
    return finding;
  }
  finding.sentence = fmt::format(
      "a collective timed out, {}; which one, and which rank is late, is not in {}",
      idle.empty() ? list_ranks(busy) + " had work that did not end" : list_ranks(idle) + " had nothing left to do",
      name_files(view.files));
  finding.missing.emplace_back("the watchdog's lines of all ranks (\"Watchdog caught collective operation timeout\")");
  finding.next.push_back(remedy("all-outputs"));
  return finding;
}

/// Ranks of the group that the watchdog reported nothing of.
struct Unheard {
  std::vector<int> silent;  ///< there are other lines of them
  RankList absent;          ///< or not
  bool some_absent = false;
  bool all_spoke = false;
};

Unheard unheard_of(const LogView& view, const std::string& name, const TorchGroup& all, int size) {
  const bool of_all = name.empty() || name == "0" || mentions(name, "default_pg");
  const int spoke = static_cast<int>(all.size()), most_told = std::min(all.rbegin()->first, INT_MAX - 1) + 1;
  const int nranks = std::max({view.rank_map.nranks, most_told, of_all ? size : -1});
  // A group smaller than the job need not have all ranks.
  const bool all_of_group = size > 0 && spoke >= size;
  Unheard unheard;
  if (!all_of_group && (spoke * 2 > nranks || (of_all && !name.empty()))) {
    for (const auto& [rank, source] : view.rank_map.source_of) {
      if (rank < nranks && !all.contains(rank) && !view.lost.may_lack_end(source)) unheard.silent.push_back(rank);
    }
    unheard.absent = missing_ranks(mapped(all, &TorchGroup::value_type::first), nranks);
  }
  unheard.some_absent = !unheard.absent.empty() || spoke < 2 || (size > 0 && spoke < size);
  unheard.all_spoke = all_of_group || spoke >= nranks;
  return unheard;
}

std::optional<Finding> judge_group(const LogView& view, const std::string& name, const TorchGroup& all) {
  TorchGroup timed;
  std::map<std::int64_t, std::vector<int>> by_seq;
  for (const auto& [rank, state] : all) {
    if (state.timed_out_seq < 0) continue;
    timed.emplace(rank, state);
    by_seq[state.timed_out_seq].push_back(rank);
  }
  if (timed.empty()) return judge_signalled(view, all);
  if (std::ranges::all_of(timed, [&](const auto& one) { return went_on(view, one.first, one.second); })) {
    return make_finding(
        Verdict::slow_not_hung,
        fmt::format("{} timed out in {} and continued afterwards: slow, not hung",
                    list_ranks(mapped(timed, &TorchGroup::value_type::first)), call_of(timed.begin()->second)),
        {"after the watchdog's message there are further calls, or it says that the collective completed"},
        {remedy("longer-timeout")});
  }
  if (auto mismatch = find_mismatch(timed)) return mismatch;
  // Of equals the later: a rank that waits in an earlier one lacks it.
  const auto& [usual, waiting] = *std::ranges::max_element(
      by_seq, {}, [](const auto& group) { return std::pair(group.second.size(), group.first); });
  const TorchState& waits = timed.at(waiting.front());
  std::vector<int> behind;
  std::int64_t least = usual;
  for (const auto& [rank, state] : all) {
    const std::int64_t reached = state.timed_out_seq >= 0 ? state.timed_out_seq : state.last_enqueued;
    if (reached < 0 || reached >= usual) continue;
    behind.push_back(rank);
    least = std::min(least, reached);
  }
  if (!behind.empty())
    return lagging(behind, waiting, waits,
                   fmt::format("PyTorch's watchdog: {} came only to SeqNum {}", list_ranks(behind), least));
  const Unheard unheard = unheard_of(view, name, all, group_size(waits));
  if (!unheard.silent.empty())
    return lagging(unheard.silent, waiting, waits,
                   fmt::format("PyTorch's watchdog reported on {}, not on {}",
                               list_ranks(mapped(all, &TorchGroup::value_type::first)), list_ranks(unheard.silent)));
  if (unheard.some_absent) return waiting_for_absent(view, waiting, waits, unheard.absent);
  std::vector<int> out;
  for (const auto& [rank, state] : all) {
    if (!timed.contains(rank) && state.last_completed >= usual) out.push_back(rank);
  }
  if (unheard.all_spoke) {
    const std::string who = list_ranks(waiting), call = call_of(waits);
    Finding finding = timed_out(
        waiting, waits, Verdict::stuck_inside,
        out.empty() ? fmt::format("all ranks ({}) entered {} and none came out", who, call)
                    : fmt::format("{} did not come out of {}; {} completed what it called there: another collective, "
                                  "or its data did not reach them",
                                  who, call, list_ranks(out)),
        {remedy(out.empty() ? "test-network" : "compare-stacks"), ras_advice(nccl_version_of(view))});
    if (out.size() < waiting.size()) finding.ranks = out;
    return finding;
  }
  return timed_out(waiting, waits, Verdict::unknown,
                   fmt::format("{} timed out in {}; how many ranks that group has is not in {}", list_ranks(waiting),
                               call_of(waits), name_files(view.files)),
                   {remedy("trace-buffer"), remedy("test-network")},
                   {"the output of all ranks: one that does not time out at that SeqNum is late or gone"});
}

}  // namespace

std::string describe_divergence(const LogView& view, const AlignedComm& comm) {
  const Divergence& divergence = *comm.divergence;
  const CallAlignment& alignment = comm.alignment;
  const std::string who = list_streams(view, alignment, divergence.deviating);
  const std::string others = list_streams(view, alignment, divergence.majority);
  const std::string number = call_number(alignment, divergence.key);
  if (divergence.order)
    return fmt::format("{} made the same calls as {} in another order from call {} of {} on: {} first, others {}", who,
                       others, number, comm.name, divergence.deviating_call, divergence.majority_call);
  if (divergence.tie)
    return fmt::format("{} and {} differ in call {} of {}, and neither is the majority: {}", who, others, number,
                       comm.name, divergence.differs);
  return fmt::format("{} called with {} in call {} of {}", who, divergence.differs, number, comm.name);
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
    } else if (is_cut_off(comm)) {
      findings.emplace_back(cut_off_finding(view, comm));
    }
  }
}

void find_in_torch(const LogView& view, Findings& findings) {
  std::map<std::string, TorchGroup> groups;
  for (const auto& [key, state] : view.book.torch.states) {
    // A line that was cut in front has no rank.
    if (key.second >= 0) groups[key.first].emplace(key.second, state);
  }
  // Some lines do not name the group: they are about the only one that the rank's others name, or that there is.
  if (const auto nameless = groups.find(""); nameless != groups.end()) {
    for (const auto& [rank, state] : std::exchange(nameless->second, {})) {
      std::vector<TorchGroup*> of;
      for (auto& [name, ranks] : groups) {
        if (!name.empty() && (groups.size() == 2 || ranks.contains(rank))) of.push_back(&ranks);
      }
      merge_torch_state((of.size() == 1 ? *of.front() : nameless->second)[rank], state);
    }
    if (nameless->second.empty()) groups.erase(nameless);
  }
  for (const auto& [name, ranks] : groups) {
    if (auto finding = judge_group(view, name, ranks)) findings.emplace_back(std::move(*finding));
  }
}

}  // namespace busbar
