#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/evidence/job_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

using Stage = Advance::Stage;

bool in_init(const SeenRank& seen) {
  return seen.progress.stage == Stage::mpi_init || seen.progress.stage == Stage::initialization;
}

using Condition = SeenRank::Condition;
using Occasion = HangEvidence::Occasion;

/// What the process does, as text: "in the timed loop, state R".
std::string process_words(const SeenRank& seen) {
  std::string text = doing(*seen.flight);
  if (seen.process.state != '?') text += fmt::format(", state {}", seen.process.state);
  if (!seen.process.wchan.empty()) text += " in " + seen.process.wchan;
  return text;
}

/// What slows the hosts of those ranks down; empty if nothing is known to.
std::string slowness(const Seen& ranks) {
  for (const SeenRank* seen : ranks) {
    for (const Trouble& trouble : seen->host->troubles)
      if (trouble.slows) return fmt::format("{}: {}", seen->host->host, trouble.text);
  }
  constexpr double kLate = 3;
  const SeenRank& first = *ranks.front();
  const bool late = first.condition == Condition::running && first.flight->heartbeat_age_s > kLate;
  return late ? "its watcher is late too: it gets little CPU" : "";
}

void blame_ranks(Symptom& symptom, const Seen& ranks) {
  symptom.blame(ranks);
  for (const SeenRank* seen : first_few(ranks)) {
    const FlightState& f = *seen->flight;
    symptom.evidence.push_back(fmt::format("{}: {}, for {}, last heartbeat {} ago", who({seen}), process_words(*seen),
                                           seconds(f.idle_s), seconds(f.heartbeat_age_s)));
  }
}

std::string absent_words(const JobSnapshot& snapshot) {
  std::string text = unheard_words(snapshot);
  if (!snapshot.recordless.empty()) text += fmt::format("; {} left no record", rank_words(snapshot.recordless));
  return text;
}

Symptom rule_behind(const JobSnapshot& snapshot, const Seen& behind, const Seen& largest) {
  Symptom symptom{Verdict::rank_lagging};
  blame_ranks(symptom, behind);
  const FlightState& f = *behind.front()->flight;
  const FlightState& there = *largest.front()->flight;
  if (inside(there) && f.entered < there.entered) {
    symptom.sentence = fmt::format("{} never entered {}, in which {} wait{}; {} {} {}", who(behind),
                                   operation(*there.call, there.entered), counted(largest.size(), "rank"),
                                   largest.size() == 1 ? "s" : "", behind.size() == 1 ? "it" : "they",
                                   are(behind.size()), process_words(*behind.front()));
  } else {
    symptom.sentence =
        fmt::format("{} {} behind, {}; {} {} {}", who(behind), are(behind.size()), process_words(*behind.front()),
                    counted(largest.size(), "rank"), are(largest.size()), doing(there));
  }
  if (const std::string slow = slowness(behind); !slow.empty()) symptom.sentence += "; " + slow;
  symptom.sentence += absent_words(snapshot);
  return symptom;
}

/// Most ranks are at the lowest place and a few beyond it.
std::optional<Symptom> rule_ahead(const JobSnapshot& snapshot, const Seen& most, const Seen& ahead) {
  const FlightState& f = *most.front()->flight;
  if (!inside(f) || !synchronizes(f)) return std::nullopt;
  Symptom symptom{Verdict::rank_lagging};
  blame_ranks(symptom, ahead);
  symptom.sentence = fmt::format(
      "{} {} past {}, in which {} ranks still wait: {} skipped one of the operations, or ended it early", who(ahead),
      are(ahead.size()), operation(*f.call, f.entered), most.size(), ahead.size() == 1 ? "it" : "they");
  symptom.evidence.push_back("the majority and the highest number disagree: most ranks are at the lower one");
  symptom.sentence += absent_words(snapshot);
  return symptom;
}

/// The processes show all ranks at the same operation; NCCL's counters, read twice, show whose GPU lags. Matched by
/// process: a communicator's ranks are GPUs or members of a group, and may be another job's.
std::optional<Symptom> rule_by_ras(const JobSnapshot& snapshot) {
  Seen behind;
  for (const RasEvidence& ras : snapshot.evidence->ras) {
    for (const std::int64_t pid : ras.lagging_pids) {
      const SeenRank* seen = find_process(snapshot.ranks, pid);
      if (seen != nullptr && std::ranges::find(behind, seen) == behind.end()) behind.push_back(seen);
    }
  }
  if (behind.empty() || 2 * behind.size() > snapshot.ranks.size()) return std::nullopt;
  Symptom symptom{Verdict::rank_lagging};
  blame_ranks(symptom, behind);
  symptom.sentence = fmt::format("{} {} behind by the counters of NCCL's RAS; the processes themselves are all {}",
                                 who(behind), are(behind.size()), doing(*behind.front()->flight));
  return symptom;
}

}  // namespace

bool synchronizes(const FlightState& f) {
  constexpr std::array kRooted = {"broadcast", "reduce", "gather", "scatter", "sendrecv"};
  return f.call && !contains(kRooted, f.call->collective);
}

std::optional<Symptom> find_not_joined(const JobSnapshot& snapshot) {
  const Seen waiting_in_init = those(snapshot, in_init);
  if (waiting_in_init.empty()) return std::nullopt;
  const Stage furthest = (*std::ranges::max_element(waiting_in_init, {}, &SeenRank::progress))->progress.stage;
  const Seen behind = those(
      snapshot, [&](const SeenRank& seen) { return seen.progress.entered == 0 && seen.progress.stage < furthest; });
  const bool somebody_is_through = std::ranges::any_of(snapshot.ranks, [](const SeenRank& seen) {
    return seen.progress.entered > 0 || seen.progress.stage > Stage::initialization;
  });
  // The ranks cannot wait for one that others have passed.
  if (somebody_is_through || (behind.empty() && snapshot.recordless.empty())) return std::nullopt;

  Symptom symptom{Verdict::init_not_joined};
  symptom.blame(behind);
  std::string sentence;
  if (!snapshot.recordless.empty()) {
    std::set<std::string> hosts;
    for (int rank : snapshot.recordless.each()) {
      symptom.ranks.insert(rank);
      hosts.insert(snapshot.evidence->host_of_rank[rank]);
    }
    sentence = fmt::format("{} did not start: no record of {} on {}", rank_words(snapshot.recordless),
                           snapshot.recordless.size() == 1 ? "it" : "them",
                           hosts.size() == 1 ? *hosts.begin() : fmt::format("{} hosts", hosts.size()));
    symptom.hosts.merge(hosts);
  }
  if (!behind.empty()) {
    if (!sentence.empty()) sentence += "; ";
    sentence += fmt::format("{} {} not joined ({})", who(behind), behind.size() == 1 ? "has" : "have",
                            doing(*behind.front()->flight));
  }
  const std::size_t waiters = snapshot.ranks.size() - behind.size();
  symptom.sentence = fmt::format("{}; {} wait{}: {}", sentence, counted(waiters, "rank"), waiters == 1 ? "s" : "",
                                 doing(*waiting_in_init.front()->flight));
  return symptom;
}

std::optional<Symptom> find_init_stuck(const JobSnapshot& snapshot) {
  const Seen still = those(snapshot, in_init);
  const std::size_t through = snapshot.ranks.size() - still.size();
  const auto has_called = [](const SeenRank& seen) { return seen.progress.entered > 0; };  // ranks that lag, then
  if (still.empty() || std::ranges::any_of(snapshot.ranks, has_called)) return std::nullopt;
  Symptom symptom{Verdict::init_stuck};
  const FlightState& f = *still.front()->flight;
  const std::string where = doing(f);
  if (through == 0) {
    symptom.sentence = still.size() == 1 ? fmt::format("the only rank heard from is {}", where)
                                         : fmt::format("all {} ranks heard from are {}", still.size(), where);
  } else {
    symptom.blame(still);
    symptom.sentence =
        fmt::format("{} {} still {}; {} left it", who(still), are(still.size()), where, counted(through, "other"));
  }
  symptom.sentence += unheard_words(snapshot);
  for (const HostEvidence* host : snapshot.reached) {
    for (const Trouble& trouble : host->troubles)
      if (trouble.kind == Trouble::Kind::resource) symptom.evidence.push_back(host->host + ": " + trouble.text);
  }
  return symptom;
}

std::optional<Symptom> find_at_files(const JobSnapshot& snapshot) {
  constexpr double kLong = 5;  // [s]
  const Seen at_files = those(snapshot, [](const SeenRank& seen) {
    const FlightState& f = *seen.flight;
    return seen.rank == 0 && seen.condition == Condition::running && f.phase == Phase::output && f.idle_s >= kLong;
  });
  if (at_files.empty() || snapshot.ranks.size() < 2) return std::nullopt;
  Symptom symptom{Verdict::rank_lagging};
  blame_ranks(symptom, at_files);
  symptom.sentence =
      fmt::format("{} is {}, for {}: its file system may not answer{}", who(at_files), process_words(*at_files.front()),
                  seconds(at_files.front()->flight->idle_s), waiting(snapshot, symptom.ranks, "it"));
  return symptom;
}

std::optional<Symptom> find_slow(const JobSnapshot& snapshot) {
  constexpr double kTraffic = 256 * 1024;
  const HangEvidence& evidence = *snapshot.evidence;
  // If the limit has passed for all, only what is younger than the limit can be progress.
  const bool by_limit = evidence.occasion == Occasion::limit && evidence.limit_s > 0;
  const double moving_s = by_limit ? std::min(5.0, evidence.limit_s) : 5.0;
  const Seen moving = those(snapshot, [&](const SeenRank& seen) {
    const bool is_there = evidence.occasion == Occasion::files ? seen.process.life == ProcessState::Life::alive
                                                               : seen.process.life != ProcessState::Life::gone;
    const bool runs = seen.condition == Condition::running && is_there;
    return runs && seen.flight->idle_s < moving_s && seen.flight->heartbeat_age_s < moving_s;
  });
  std::vector<std::string> busy;
  for (const HostEvidence* host : snapshot.reached) {
    if (host->net_bytes_per_s > kTraffic) {
      busy.push_back(fmt::format("{}: {}/s over its network", host->host,
                                 format_bytes(static_cast<std::uint64_t>(std::min(host->net_bytes_per_s, 1e15)))));
    }
  }
  if (evidence.occasion != Occasion::slow_limit && moving.empty() && busy.empty()) return std::nullopt;
  if (evidence.occasion == Occasion::files && moving.empty()) return std::nullopt;
  Symptom symptom;
  const bool live = evidence.occasion == Occasion::files;
  symptom.verdict = live ? Verdict::ok : Verdict::slow_not_hung;
  symptom.evidence = busy;
  if (!moving.empty()) {
    symptom.sentence =
        fmt::format("{}: {} of {} ranks advanced within the last {:.0f} s",
                    live ? "the job moves" : "slow, but it moves", moving.size(), snapshot.ranks.size(), moving_s);
  } else if (!busy.empty()) {
    symptom.sentence = fmt::format("slow, but data move: {}", busy.front());
  } else {
    symptom.sentence = "slow: it moved until recently";
  }
  symptom.sentence += waiting(snapshot, {}, "");
  return symptom;
}

std::optional<Symptom> find_lagging(const JobSnapshot& snapshot) {
  const Seen all = not_at_their_end(snapshot);
  const Levels levels = levels_of(all);
  if (levels.size() < 2) return std::nullopt;
  const Seen* largest = nullptr;
  Seen above;
  for (const auto& [progress, ranks] : levels) {
    if (largest == nullptr || ranks.size() >= largest->size()) largest = &ranks;
    if (progress != levels.begin()->first) above.insert(above.end(), ranks.begin(), ranks.end());
  }
  const Seen& lowest = levels.begin()->second;
  if (2 * lowest.size() <= all.size())
    return rule_behind(snapshot, lowest, &lowest == largest ? std::prev(levels.end())->second : *largest);
  return rule_ahead(snapshot, lowest, above);
}

std::optional<Symptom> find_stuck_inside(const JobSnapshot& snapshot) {
  const Seen all = not_at_their_end(snapshot);
  if (all.empty()) return std::nullopt;
  const Levels levels = levels_of(all);
  if (auto symptom = rule_by_ras(snapshot); symptom && levels.size() == 1) return symptom;
  const Seen& largest = largest_of(levels);
  Symptom symptom{Verdict::stuck_inside};
  const FlightState& f = *largest.front()->flight;
  const std::string where = inside(f) ? "inside " + operation(*f.call, f.entered) : doing(f);
  symptom.sentence =
      levels.size() == 1
          ? fmt::format("all {} {} {}, and none comes out", counted(all.size(), "rank"), are(all.size()), where)
          : fmt::format("{} of {} ranks are {}, the others past it, as this collective allows", largest.size(),
                        all.size(), where);
  symptom.sentence += absent_words(snapshot);
  return symptom;
}

}  // namespace busbar
