#include "common/base/lists.h"
#include "common/base/text.h"
#include "driver/diagnose/looks/look_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace busbar {
namespace {

using Kind = Activity::Kind;

constexpr std::string_view kInstead = "what the ranks do instead of the call that the others wait in";

bool moves(const RankFacts& one) { return one.activity.moves; }
bool is_slow(const RankFacts& one) { return one.rule != nullptr && one.rule->slow; }
bool of_library(const RankFacts& one) { return one.activity.kind == Kind::library; }

/// The groups of ranks by a text.
std::vector<Looked> parties_of(const Looked& ranks, auto text_of) {
  std::vector<Looked> parties;
  for (const auto& [text, same] : grouped(ranks, text_of))
    parties.push_back(mapped(same, [](const RankFacts* const* one) { return *one; }));
  return parties;
}

/// A line for each different thing that ranks do, with what proves it; then what the verdict rests on.
void add_evidence(const Looked& ranks, std::string_view basis, Symptom& symptom) {
  constexpr std::size_t kFew = 6;
  std::vector<Looked> parties = parties_of(ranks, [](const RankFacts* one) { return one->activity.doing; });
  parties.resize(std::min(parties.size(), kFew));
  for (const Looked& party : parties) {
    const auto& [kind, id, doing, call, moving, proof, trouble] = party.front()->activity;
    symptom.evidence.push_back(fmt::format("{}: {}{}{}", who_of(party), doing, proof.empty() ? "" : "; ", proof));
    add_once(symptom.evidence, trouble);
    if (id == "gpu" && parties.size() == 1 && symptom.verdict == Verdict::rank_lagging) {
      symptom.about_gpu = true;
      symptom.evidence.emplace_back("its GPU runs no call of NCCL: the GPU itself is suspected (XIDs may be missing)");
    }
  }
  symptom.evidence.push_back(fmt::format("it rests on {}", basis));
}

std::int64_t pid_for_ras(const RankFacts& one) {
  return one.process->inner_pid > 0 ? one.process->inner_pid : one.process->pid;
}

/// Ranks that RAS counts fewer launches of, twice the same. In containers several may have one pid: that names none.
Looked behind_by_counts(const LookedJob& job) {
  std::map<std::int64_t, Looked> by_pid;
  for (const RankFacts* one : job.all) by_pid[pid_for_ras(*one)].push_back(one);
  return those_of(job.all, [&](const RankFacts& one) {
    const std::int64_t pid = pid_for_ras(one);
    const auto lags = [&](const RasEvidence& ras) { return contains(ras.lagging_pids, pid); };
    return by_pid[pid].size() == 1 && std::ranges::any_of(job.looks.evidence.ras, lags);
  });
}

/// What is known of the library that holds a rank up, if it is about this version and machine.
std::string known_fault(const RankFacts& one) {
  if (one.rule == nullptr) return {};
  const int version = one.process->nccl_version;
  const bool fits = one.rule->before == 0 || (version > 0 && version < one.rule->before);
  return fits && one.host->kernel.find(one.rule->machine) != std::string::npos ? one.rule->note : "";
}

/// The first place where the stacks of two ranks part; empty if that is nowhere.
std::string parting(const RankFacts& one, const RankFacts& other) {
  const auto &ours = main_stack(*one.process), &theirs = main_stack(*other.process);
  const auto [here, there] = std::ranges::mismatch(ours, theirs);
  if (here == ours.begin() || here == ours.end() || there == theirs.end()) return {};
  return fmt::format("their stacks part in {}: {} and {}", *std::prev(here), *here, *there);
}

}  // namespace

std::optional<Symptom> find_healthy(const LookedJob& job) {
  const std::size_t all = job.all.size();
  const auto goes = [](const RankFacts& one) { return moves(one) || one.steps; };
  const bool stands = those_of(job.elsewhere, goes).size() < job.elsewhere.size();
  if (all == 0 || all != job.snapshot.ranks.size() || stands || !job.gone.empty()) return std::nullopt;
  Symptom symptom{Verdict::ok};
  if (job.idle.size() == all) {
    symptom.sentence = fmt::format("all {} wait for requests: the service is idle", counted(all, "rank"));
    return symptom;
  }
  // Ranks that only poll are woken too: in a job that moves the place of one changed, or one works, or one that spins
  // reads and writes.
  const Looked real = those_of(job.all, [](const RankFacts& one) { return one.changed || one.moved || moves(one); });
  const bool all_move =
      those_of(job.all, goes).size() == all && !real.empty() && those_of(job.all, is_slow).size() < all;
  if (!job.looks.counts_moved && !all_move) return std::nullopt;
  symptom.sentence =
      fmt::format("the job moves: {}", job.looks.counts_moved ? "NCCL's RAS counted more launches in the second look"
                                                              : "all ranks did something between the looks");
  add_evidence(job.all, "two looks", symptom);
  return symptom;
}

std::optional<Symptom> find_recorded_calls(const LookedJob& job) {
  if (!job.looks.recorded) return std::nullopt;
  const Diagnosis& recorded = *job.looks.recorded;
  if (recorded.verdict == Verdict::ok || recorded.verdict == Verdict::unknown) return std::nullopt;
  Symptom symptom{recorded.verdict, recorded.sentence};
  const Looked late = those_of(job.all, [&](const RankFacts& one) { return contains(recorded.ranks, one.seen->rank); });
  symptom.blame(mapped(late, &RankFacts::seen));
  symptom.ranks = {recorded.ranks.begin(), recorded.ranks.end()};
  symptom.evidence = recorded.evidence;
  // Different operations of one number are different ways through the program.
  const auto calls = grouped(job.waiting, [](const RankFacts* one) { return one->activity.call; });
  if (symptom.verdict == Verdict::arg_mismatch && calls.size() > 1) symptom.verdict = Verdict::order_mismatch;
  const bool is_late = symptom.verdict == Verdict::rank_lagging && !late.empty();
  if (is_late && std::ranges::all_of(late, [](const RankFacts* one) { return moves(*one); }))
    symptom.verdict = Verdict::slow_not_hung;
  if (is_late) symptom.sentence += "; instead: " + late.front()->activity.doing;
  const auto is_open = [](const std::string& line) { return line.find("none came out") != std::string::npos; };
  if (symptom.verdict == Verdict::stuck_inside && std::ranges::any_of(symptom.evidence, is_open)) {
    symptom.evidence.emplace_back(
        "two groups in flight: NCCL may run open calls of several groups in another order on each GPU");
  }
  add_evidence(late, "PyTorch's Flight Recorder: which calls each rank made", symptom);
  return symptom;
}

std::optional<Symptom> find_parted_calls(const LookedJob& job) {
  const bool known = job.looks.recorded && job.looks.recorded->verdict != Verdict::unknown;
  // In MPI calls leave no frame; then the program's lines differ.
  const bool by_line = job.waiting.empty();
  const auto key = [&](const RankFacts* one) { return by_line ? one->site : one->activity.call; };
  const Looked stand = those_of(by_line ? job.unknown : job.waiting, [&](const RankFacts& one) {
    return !moves(one) && !key(&one).empty() && !has_any(key(&one), {"send", "recv"}) && (!by_line || one.spins);
  });
  if (known || job.looks.logs_grow || !job.looks.whole || !job.gone.empty() || stand.size() != job.all.size())
    return std::nullopt;
  std::vector<Looked> parties = parties_of(stand, key);
  if (parties.size() < 2) return std::nullopt;
  std::ranges::stable_sort(parties, std::ranges::greater{}, &Looked::size);
  const CallVote vote = vote_of(mapped(parties, [](const Looked& party) {
    return mapped(party, [](const RankFacts* one) { return static_cast<std::uint32_t>(one->seen->rank); });
  }));
  Symptom symptom{Verdict::order_mismatch};
  // Of equal sides at lines whose calls are not known, one has come out of a call that the other is in: which is late
  // depends on the call.
  const std::size_t first = !vote.tie ? 1 : by_line ? parties.size() : 0;
  for (std::size_t i = first; i < parties.size(); ++i) symptom.blame(mapped(parties[i], &RankFacts::seen));
  symptom.sentence =
      fmt::format("ranks wait for each other in different calls: {}",
                  fmt::join(mapped(parties,
                                   [](const Looked& party) {
                                     return fmt::format("{}: {}", who_of(party), party.front()->activity.doing);
                                   }),
                            "; "));
  add_once(symptom.evidence, parting(*parties[0].front(), *parties[1].front()));
  symptom.evidence.emplace_back("the larger side is no proof: each waits for the call that the other does not make");
  symptom.evidence.emplace_back(
      "another story: if these calls are of different groups, all are inside, and the network or a GPU holds them up");
  add_evidence({}, "stacks: what the ranks do instead; records of calls would say more", symptom);
  return symptom;
}

std::optional<Symptom> find_working(const LookedJob& job) {
  const auto is_held = [](const RankFacts* one) {
    return !one->activity.trouble.empty() || one->activity.id == "debugger";
  };
  const Looked woken = those_of(job.waiting, moves);
  if (std::ranges::any_of(job.elsewhere, is_held)) return std::nullopt;
  // Without work of their own, some came out of their calls between the looks, and some did not yet.
  if (job.working.empty() && (woken.empty() || !job.elsewhere.empty() || !job.leaving.empty())) return std::nullopt;
  const Looked& slow = job.working.empty() ? woken : job.working;
  Symptom symptom = about(Verdict::slow_not_hung, slow);
  if (job.working.empty() || slow.size() == job.all.size()) symptom.ranks.clear(), symptom.hosts.clear();
  symptom.sentence +=
      fmt::format(" ({}){}", slow.front()->activity.proof, largest_of(job.waiting.empty() ? job.joining : job.waiting));
  add_evidence(slow, kInstead, symptom);
  if (!job.elsewhere.empty())
    symptom.evidence.push_back(fmt::format("another story: {} does not move: {}", who_of(job.elsewhere),
                                           job.elsewhere.front()->activity.doing));
  return symptom;
}

std::optional<Symptom> find_late(const LookedJob& job) {
  const Looked behind = behind_by_counts(job);
  const Looked spinning = those_of(job.unknown, [](const RankFacts& one) { return one.spins; });
  const Looked& waiting = !job.waiting.empty() ? job.waiting : !job.joining.empty() ? job.joining : spinning;
  Looked late = job.elsewhere;
  std::string_view basis = kInstead;
  if (late.empty() && !waiting.empty() && spinning.empty()) late = job.leaving;
  if (late.empty() && behind.size() < job.all.size() && those_of(behind, of_library).empty()) {
    late = behind;
    basis = "NCCL's RAS: how many operations each rank launched";
  }
  if (late.empty() && !job.waiting.empty() && job.looks.whole) {
    late = those_of(job.unknown, [](const RankFacts& one) { return !one.site.empty() && !moves(one) && !one.spins; });
    if (late.size() > job.waiting.size()) late.clear();
  }
  const bool held = std::ranges::none_of(late, [](const RankFacts* one) { return one->activity.trouble.empty(); });
  if (late.empty() || (waiting.empty() && job.idle.empty() && !held)) return std::nullopt;
  Symptom symptom = about(Verdict::rank_lagging, late);
  const std::string& trouble = late.front()->activity.trouble;
  symptom.sentence += (trouble.empty() ? "" : "; " + trouble) + largest_of(waiting);
  add_evidence(late, basis, symptom);
  if (2 * late.size() > job.all.size())
    symptom.evidence.emplace_back("most ranks are late: the majority is no proof, and nobody is to blame for waiting");
  return symptom;
}

std::optional<Symptom> find_all_inside(const LookedJob& job) {
  const std::size_t all = job.all.size();
  if (all == 0 || job.looks.logs_grow || !job.idle.empty()) return std::nullopt;
  const Looked held = those_of(job.all, of_library);
  const Looked full = those_of(job.all, [](const RankFacts& one) { return one.activity.kind == Kind::between; });
  if (!held.empty()) {
    Symptom symptom = about(Verdict::stuck_inside, held);
    if (held.size() == all) symptom.ranks.clear(), symptom.hosts.clear();
    const std::string& trouble = held.front()->activity.trouble;
    symptom.sentence += (trouble.empty() ? "" : "; " + trouble) +
                        largest_of(those_of(job.waiting, [&](const RankFacts& one) { return !of_library(one); }));
    add_once(symptom.evidence, known_fault(*held.front()));
    add_evidence(held, "native stacks", symptom);
    return symptom;
  }
  const RankFacts& first = *job.all.front();
  const auto same_line = [&](const RankFacts* one) {
    return !one->site.empty() && one->site == first.site && !one->spins;
  };
  const bool inside = job.waiting.size() + job.unknown.size() == all && std::ranges::all_of(job.unknown, same_line);
  if (!those_of(job.all, moves).empty() || !job.gone.empty() || (!inside && job.leaving.size() != all))
    return std::nullopt;
  Symptom symptom{Verdict::stuck_inside};
  symptom.sentence = fmt::format("all {} are {}, and none comes out{}", counted(all, "rank"),
                                 inside ? "inside" : "ending their communicators", largest_of(job.all));
  if (!full.empty()) symptom.evidence.push_back(fmt::format("{}: ahead, not late", who_of(full)));
  symptom.evidence.emplace_back(
      inside ? "no rank is elsewhere: the network, a GPU or the library holds them up; nothing shows which"
             : "the cause came before: the first error in the logs");
  add_evidence(job.all, "stacks and GPUs: all wait", symptom);
  return symptom;
}

}  // namespace busbar
