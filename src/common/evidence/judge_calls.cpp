#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/evidence/job_snapshot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace busbar {
namespace {

/// The ranks that make the same call as the operation of one number.
struct Callers {
  CalledOperation call;
  Seen ranks;
};

/// Operations of one step, numbered from `first`.
struct Run {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::string collective;
  std::uint64_t nbytes = 0;
};

bool at_call(const SeenRank& seen) {
  const FlightState& f = *seen.flight;
  return f.call && (inside(f) || f.phase == Phase::timed_loop || f.phase == Phase::checking);
}

/// What a rank called, oldest first, as far back as its record goes.
std::vector<Run> history(const FlightState& f) {
  std::vector<Run> runs;
  std::uint64_t before = 0;
  bool known = false;  // the record does not have the beginning of the oldest step
  for (const FinishedStep& step : f.finished) {
    if (known && !step.collective.empty() && step.last_entered > before)
      runs.push_back({before + 1, step.last_entered, step.collective, step.nbytes});
    before = step.last_entered;
    known = true;
  }
  if (f.call)
    runs.push_back({f.step_first + 1, std::max(f.entered, f.step_first + 1), f.call->collective, f.call->nbytes});
  return runs;
}

bool made(const FlightState& f, const CalledOperation& call) {
  const std::vector<Run> runs = history(f);
  return std::ranges::any_of(
      runs, [&](const Run& run) { return run.collective == call.collective && run.nbytes == call.nbytes; });
}

/// "dtype double instead of float, count 8 instead of 16".
std::string differences(const CalledOperation& odd, const CalledOperation& usual) {
  std::vector<std::string> texts;
  const auto differ = [&](std::string_view what, const auto& a, const auto& b) {
    if (a != b) texts.push_back(fmt::format("{} {} instead of {}", what, a, b));
  };
  differ("communicator", odd.communicator, usual.communicator);
  differ("collective", odd.collective, usual.collective);
  differ("count", odd.count, usual.count);
  differ("dtype", odd.dtype, usual.dtype);
  differ("op", odd.op, usual.op);
  differ("root", odd.root, usual.root);
  if (texts.empty()) differ("size", format_bytes(odd.nbytes), format_bytes(usual.nbytes));
  if (odd.in_place != usual.in_place)
    texts.emplace_back(odd.in_place ? "in place instead of out of place" : "out of place instead of in place");
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<Callers> callers_of(const Seen& ranks) {
  std::vector<Callers> all;
  for (const SeenRank* seen : ranks) {
    auto same = std::ranges::find(all, *seen->flight->call, &Callers::call);
    if (same == all.end()) same = all.insert(same, {*seen->flight->call, {}});
    same->ranks.push_back(seen);
  }
  std::ranges::stable_sort(all, std::greater{}, [](const Callers& c) { return c.ranks.size(); });
  return all;
}

/// Whether both made, or are making, the other's call: then only their order differs.
bool only_order(const Callers& a, const Callers& b) {
  if (a.call.communicator != b.call.communicator) return true;
  if (a.call.collective == b.call.collective && a.call.nbytes == b.call.nbytes) return false;
  return made(*a.ranks.front()->flight, b.call) || made(*b.ranks.front()->flight, a.call);
}

/// "rank 3 on node1 (pid 4711) calls all_reduce #412, 64 MiB float sum".
std::string calling(const Seen& ranks, const CalledOperation& call, std::uint64_t number) {
  return fmt::format("{} call{} {}", who(ranks), ranks.size() == 1 ? "s" : "", operation(call, number));
}

Symptom rule(const std::vector<Callers>& callers, std::uint64_t number) {
  Symptom symptom;
  const Callers& usual = callers[0];
  const Callers& odd = callers[1];
  const bool order = only_order(usual, odd);
  symptom.verdict = order ? Verdict::order_mismatch : Verdict::arg_mismatch;
  const std::string tail = order ? ": they call in different orders" : "";
  const auto numbers = [](const Callers& c) {
    return mapped(c.ranks, [](const SeenRank* seen) { return static_cast<std::uint32_t>(seen->rank); });
  };
  if (!vote_of(mapped(callers, numbers)).tie) {
    for (std::size_t i = 1; i < callers.size(); ++i) symptom.blame(callers[i].ranks);
    symptom.sentence = fmt::format("{} with {}, as {} do{}", calling(odd.ranks, odd.call, number),
                                   differences(odd.call, usual.call), counted(usual.ranks.size(), "rank"), tail);
  } else {
    symptom.sentence =
        fmt::format("{}, {}: no majority shows which is right{}", calling(usual.ranks, usual.call, number),
                    calling(odd.ranks, odd.call, number), order ? "; they call in different orders" : "");
  }
  for (const Callers& c : callers) {
    symptom.evidence.push_back(fmt::format("{}: {}, count {}{}", who(c.ranks), operation(c.call, number), c.call.count,
                                           c.call.in_place ? ", in place" : ""));
  }
  return symptom;
}

/// A rank in another step than the others had at that number.
std::optional<Symptom> find_shifted(const Seen& ranks) {
  for (const SeenRank* seen : ranks) {
    const FlightState& f = *seen->flight;
    const std::uint64_t number = f.step_first + 1;
    Seen same, other;
    std::optional<Run> what;
    for (const SeenRank* peer : ranks) {
      for (const Run& run : history(*peer->flight)) {
        if (number < run.first || number > run.last) continue;
        const bool equal = run.collective == f.call->collective && run.nbytes == f.call->nbytes;
        (equal ? same : other).push_back(peer);
        if (!equal) what = run;
      }
    }
    if (!what || other.size() < same.size()) continue;
    Symptom symptom;
    const bool order = std::ranges::any_of(other, [&](const SeenRank* s) { return made(*s->flight, *f.call); });
    symptom.verdict = order ? Verdict::order_mismatch : Verdict::arg_mismatch;
    if (other.size() > same.size()) symptom.blame(same);
    symptom.sentence = fmt::format("{}, while operation #{} of {} was {}, {}", calling(same, *f.call, number), number,
                                   who(other), what->collective, format_bytes(what->nbytes));
    return symptom;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Symptom> find_call_mismatch(const JobSnapshot& snapshot) {
  std::map<std::uint64_t, Seen> by_first;
  Seen calling;
  for (const SeenRank& seen : snapshot.ranks) {
    if (!at_call(seen)) continue;
    by_first[seen.flight->step_first].push_back(&seen);
    calling.push_back(&seen);
  }
  for (const auto& [first, ranks] : by_first) {
    const std::vector<Callers> callers = callers_of(ranks);
    if (callers.size() < 2) continue;
    std::uint64_t number = first + 1;
    for (const SeenRank* seen : callers[1].ranks) number = std::max(number, seen->flight->entered);
    return rule(callers, number);
  }
  return by_first.size() > 1 ? find_shifted(calling) : std::nullopt;
}

}  // namespace busbar
