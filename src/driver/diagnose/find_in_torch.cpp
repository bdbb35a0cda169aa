#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace busbar {

namespace {

struct TorchRank {
  int rank = -1;
  const TorchState* state = nullptr;
};

using TorchGroup = std::vector<TorchRank>;

std::string list(const std::vector<int>& ranks) { return list_ranks(ranks); }

std::string call_of(const TorchState& state) {
  return fmt::format("{} SeqNum {}", state.op.empty() ? "collective" : state.op, state.timed_out_seq);
}

/// Whether a rank went on after its watchdog spoke.
bool went_on(const LogView& view, const TorchRank& one) {
  if (one.state->last_completed >= one.state->timed_out_seq) return true;
  const auto actor = view.cast.actor_of.find(one.rank);
  if (actor == view.cast.actor_of.end()) return false;
  const Actor& known = view.book.actors[actor->second];
  return known.last_call_file == one.state->file && known.last_call_line > one.state->line;
}

/// Operations in which all ranks have the same number of elements.
bool uniform(const std::string& op) {
  return op.find("ALLTOALL") == std::string::npos && op.find("SEND") == std::string::npos &&
         op.find("RECV") == std::string::npos && op != "GATHER" && op != "SCATTER" && op != "COALESCED";
}

/// Ranks that called something else at the same SeqNum.
bool find_mismatch(const TorchGroup& timed, LogFindings& findings) {
  std::map<std::int64_t, std::map<std::pair<std::string, std::int64_t>, std::vector<int>>> calls;
  for (const TorchRank& one : timed) {
    const std::int64_t numel = uniform(one.state->op) ? one.state->numel_in : -1;
    calls[one.state->timed_out_seq][{one.state->op, numel}].push_back(one.rank);
  }
  for (const auto& [seq, kinds] : calls) {
    if (kinds.size() < 2) continue;
    const auto usual = std::max_element(kinds.begin(), kinds.end(),
                                        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    for (const auto& [call, ranks] : kinds) {
      if (call == usual->first) continue;
      LogFinding finding;
      finding.verdict = Verdict::arg_mismatch;
      const std::string differs =
          call.first != usual->first.first
              ? fmt::format("{} instead of {}", call.first, usual->first.first)
              : fmt::format("count {} instead of {} in {}", call.second, usual->first.second, call.first);
      finding.sentence = fmt::format("{} called {} at SeqNum {}", list(ranks), differs, seq);
      finding.evidence.push_back(fmt::format("PyTorch's watchdog: {} {} (NumelIn {}); {} {} (NumelIn {})", list(ranks),
                                             call.first, call.second, list(usual->second), usual->first.first,
                                             usual->first.second));
      finding.next.emplace_back(
          "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and fr_trace: where in the "
          "program the call was made");
      findings.push_back(std::move(finding));
      return true;
    }
  }
  return false;
}

LogFinding lagging(const std::vector<int>& behind, const std::vector<int>& waiting, const TorchState& waits,
                   std::string evidence) {
  LogFinding finding;
  finding.verdict = Verdict::rank_lagging;
  finding.sentence =
      fmt::format("{} did not reach {}, in which {} timed out", list(behind), call_of(waits), list(waiting));
  finding.evidence.push_back(std::move(evidence));
  finding.next.emplace_back(
      "py-spy dump --pid of those ranks; "
      "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and fr_trace");
  return finding;
}

void judge_group(const LogView& view, const TorchGroup& all, LogFindings& findings) {
  TorchGroup timed;
  std::map<std::int64_t, std::vector<int>> by_seq;
  for (const TorchRank& one : all) {
    if (one.state->timed_out_seq < 0) continue;
    timed.push_back(one);
    by_seq[one.state->timed_out_seq].push_back(one.rank);
  }
  if (timed.empty()) return;
  if (std::all_of(timed.begin(), timed.end(), [&](const TorchRank& one) { return went_on(view, one); })) {
    std::vector<int> ranks;
    for (const TorchRank& one : timed) ranks.push_back(one.rank);
    LogFinding finding;
    finding.verdict = Verdict::slow_not_hung;
    finding.sentence = fmt::format("{} timed out in {} and went on afterwards: slow, not hung", list(ranks),
                                   call_of(*timed.front().state));
    finding.evidence.emplace_back(
        "calls follow the watchdog's words, or it "
        "says that the collective is completed");
    finding.next.emplace_back(
        "a longer timeout (init_process_group), and what "
        "takes so long: data loading, checkpoints");
    findings.push_back(std::move(finding));
    return;
  }
  if (find_mismatch(timed, findings)) return;
  const auto usual = std::max_element(by_seq.begin(), by_seq.end(),
                                      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const auto waits = std::find_if(timed.begin(), timed.end(),
                                  [&](const TorchRank& one) { return one.state->timed_out_seq == usual->first; });
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
    findings.push_back(lagging(behind, usual->second, *waits->state,
                               fmt::format("PyTorch's watchdog: {} came only to SeqNum {}", list(behind), least)));
    return;
  }
  std::vector<int> silent_known, silent_absent;
  const int nranks = std::max(view.cast.nranks, spoke.empty() ? 0 : *spoke.rbegin() + 1);
  // A group smaller than the job is not asked for ranks that may not be in it.
  if (static_cast<int>(spoke.size()) * 2 > nranks) {
    for (int rank = 0; rank < nranks; ++rank) {
      if (spoke.count(rank) > 0) continue;
      (view.cast.actor_of.count(rank) > 0 ? silent_known : silent_absent).push_back(rank);
    }
  }
  if (!silent_known.empty()) {
    findings.push_back(lagging(silent_known, usual->second, *waits->state,
                               fmt::format("PyTorch's watchdog spoke on {}, not on {}",
                                           list(std::vector<int>(spoke.begin(), spoke.end())), list(silent_known))));
    return;
  }
  LogFinding finding;
  finding.evidence.push_back(fmt::format(
      "PyTorch's watchdog: {} timed out in {}; last enqueued {}, "
      "last completed {}",
      list(usual->second), call_of(*waits->state), waits->state->last_enqueued, waits->state->last_completed));
  finding.next.emplace_back(
      "echo 'verbose status' | nc localhost 28028 (NCCL's RAS); dmesg; the "
      "network between the hosts");
  if (!silent_absent.empty() || static_cast<int>(spoke.size()) < 2) {
    finding.verdict = Verdict::unknown;
    finding.sentence =
        fmt::format("{} timed out in {}; of {} nothing is in {}", list(usual->second), call_of(*waits->state),
                    silent_absent.empty() ? "the other ranks" : list(silent_absent), name_files(view.files));
    finding.missing.push_back("the logs of " + (silent_absent.empty() ? "the other ranks" : list(silent_absent)));
  } else {
    finding.verdict = Verdict::stuck_inside;
    finding.sentence =
        fmt::format("all ranks ({}) entered {} and none came out", list(usual->second), call_of(*waits->state));
  }
  findings.push_back(std::move(finding));
}

}  // namespace

void find_in_torch(const LogView& view, LogFindings& findings) {
  std::map<std::string, TorchGroup> groups;
  for (const auto& [key, state] : view.book.torch.states()) groups[key.first].push_back({key.second, &state});
  // Some lines do not tell the group: where there is one, they speak of it.
  if (groups.size() == 2 && groups.count("") == 1) {
    std::map<int, TorchState> merged;
    TorchGroup whole;
    for (const auto& [name, ranks] : groups) {
      for (const TorchRank& one : ranks) merge_torch_state(merged[one.rank], *one.state);
    }
    for (const auto& [rank, state] : merged) whole.push_back({rank, &state});
    judge_group(view, whole, findings);
    return;
  }
  for (const auto& [name, ranks] : groups) judge_group(view, ranks, findings);
}

}  // namespace busbar
