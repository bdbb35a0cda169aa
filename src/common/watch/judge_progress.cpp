#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/watch/judge_scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

using Stage = Advance::Stage;

bool in_init(const SeenRank& seen) {
  return seen.progress.stage == Stage::mpi_init || seen.progress.stage == Stage::initialization;
}

}  // namespace

bool synchronizes(const FlightState& f) {
  constexpr std::array kRooted = {"broadcast", "reduce", "gather", "scatter", "sendrecv"};
  return f.call && !contains(kRooted, f.call->collective);
}

std::optional<Ruling> find_not_joined(const Scene& scene) {
  const Seen waiting_in_init = those(scene, in_init);
  if (waiting_in_init.empty()) return std::nullopt;
  const Stage furthest = (*std::ranges::max_element(waiting_in_init, {}, &SeenRank::progress))->progress.stage;
  const Seen behind =
      those(scene, [&](const SeenRank& seen) { return seen.progress.entered == 0 && seen.progress.stage < furthest; });
  const bool somebody_is_through = std::ranges::any_of(scene.ranks, [](const SeenRank& seen) {
    return seen.progress.entered > 0 || seen.progress.stage > Stage::initialization;
  });
  // A rank that others are already past cannot be one for which they wait.
  if (somebody_is_through || (behind.empty() && scene.recordless.empty())) return std::nullopt;

  Ruling ruling{Verdict::init_not_joined};
  ruling.blame(behind);
  std::string sentence;
  if (!scene.recordless.empty()) {
    std::set<std::string> hosts;
    for (int rank : scene.recordless.each()) {
      ruling.ranks.insert(rank);
      hosts.insert(scene.evidence->host_of_rank[rank]);
    }
    sentence = fmt::format("{} did not start: no record of {} on {}", rank_words(scene.recordless),
                           scene.recordless.size() == 1 ? "it" : "them",
                           hosts.size() == 1 ? *hosts.begin() : fmt::format("{} hosts", hosts.size()));
    ruling.hosts.merge(hosts);
  }
  if (!behind.empty()) {
    if (!sentence.empty()) sentence += "; ";
    sentence += fmt::format("{} {} not come to it, {}", who(behind), behind.size() == 1 ? "has" : "have",
                            doing(*behind.front()->flight));
  }
  const std::size_t waiters = scene.ranks.size() - behind.size();
  ruling.sentence = fmt::format("{}; {} wait{} in {}", sentence, counted(waiters, "rank"), waiters == 1 ? "s" : "",
                                name(waiting_in_init.front()->flight->phase));
  return ruling;
}

std::optional<Ruling> find_init_stuck(const Scene& scene) {
  const Seen still = those(scene, in_init);
  const std::size_t through = scene.ranks.size() - still.size();
  const auto has_called = [](const SeenRank& seen) { return seen.progress.entered > 0; };  // ranks that lag, then
  if (still.empty() || std::ranges::any_of(scene.ranks, has_called)) return std::nullopt;
  Ruling ruling{Verdict::init_stuck};
  const FlightState& f = *still.front()->flight;
  const std::string where = doing(f);
  if (through == 0) {
    ruling.sentence = fmt::format("all {} heard from {} {}", counted(still.size(), "rank"), are(still.size()), where);
  } else {
    ruling.blame(still);
    ruling.sentence =
        fmt::format("{} {} still {}; {} left it", who(still), are(still.size()), where, counted(through, "other"));
  }
  ruling.sentence += unheard_words(scene);
  for (const HostEvidence* host : scene.reached) {
    for (const Trouble& trouble : host->troubles) {
      if (trouble.kind == Trouble::Kind::resource) ruling.evidence.push_back(host->host + ": " + trouble.text);
    }
  }
  return ruling;
}

namespace {

using Condition = SeenRank::Condition;
using Occasion = HangEvidence::Occasion;

/// What the process does in words: "in the timed loop, state R".
std::string process_words(const SeenRank& seen) {
  std::string text = doing(*seen.flight);
  if (seen.process.state != '?') text += fmt::format(", state {}", seen.process.state);
  if (!seen.process.wchan.empty()) text += " in " + seen.process.wchan;
  return text;
}

/// What slows the hosts of those ranks down; empty where nothing is known to.
std::string slowness(const Seen& ranks) {
  for (const SeenRank* seen : ranks) {
    for (const Trouble& trouble : seen->host->troubles) {
      if (trouble.slows) return fmt::format("{}: {}", seen->host->host, trouble.text);
    }
  }
  constexpr double kLate = 3;
  const SeenRank& first = *ranks.front();
  const bool late = first.condition == Condition::running && first.flight->heartbeat_age_s > kLate;
  return late ? "its watcher is late too: it gets little CPU" : "";
}

void blame_ranks(Ruling& ruling, const Seen& ranks) {
  ruling.blame(ranks);
  for (const SeenRank* seen : first_few(ranks)) {
    const FlightState& f = *seen->flight;
    ruling.evidence.push_back(fmt::format("{}: {}, for {}, last heartbeat {} ago", who({seen}), process_words(*seen),
                                          seconds(f.idle_s), seconds(f.heartbeat_age_s)));
  }
}

std::string absent_words(const Scene& scene) {
  std::string text = unheard_words(scene);
  if (!scene.recordless.empty()) text += fmt::format("; {} left no record", rank_words(scene.recordless));
  return text;
}

Ruling rule_behind(const Scene& scene, const Seen& behind, const Seen& largest) {
  Ruling ruling{Verdict::rank_lagging};
  blame_ranks(ruling, behind);
  const FlightState& f = *behind.front()->flight;
  const FlightState& there = *largest.front()->flight;
  if (inside(there) && f.entered < there.entered) {
    ruling.sentence = fmt::format("{} never entered {}, in which {} wait{}; {} {} {}", who(behind),
                                  operation(*there.call, there.entered), counted(largest.size(), "rank"),
                                  largest.size() == 1 ? "s" : "", behind.size() == 1 ? "it" : "they",
                                  are(behind.size()), process_words(*behind.front()));
  } else {
    ruling.sentence =
        fmt::format("{} {} behind, {}; {} {} {}", who(behind), are(behind.size()), process_words(*behind.front()),
                    counted(largest.size(), "rank"), are(largest.size()), doing(there));
  }
  if (const std::string slow = slowness(behind); !slow.empty()) ruling.sentence += "; " + slow;
  ruling.sentence += absent_words(scene);
  return ruling;
}

/// Most ranks are at the lowest place and few beyond it.
std::optional<Ruling> rule_ahead(const Scene& scene, const Seen& most, const Seen& ahead) {
  const FlightState& f = *most.front()->flight;
  if (!inside(f) || !synchronizes(f)) return std::nullopt;
  Ruling ruling{Verdict::rank_lagging};
  blame_ranks(ruling, ahead);
  ruling.sentence = fmt::format(
      "{} {} past {}, in which {} ranks still wait: {} left out one of the operations, or ended it early", who(ahead),
      are(ahead.size()), operation(*f.call, f.entered), most.size(), ahead.size() == 1 ? "it" : "they");
  ruling.evidence.push_back("the majority and the highest number disagree: most ranks are at the lower one");
  ruling.sentence += absent_words(scene);
  return ruling;
}

/// Seen from the processes all are at the same operation; NCCL's own counters, read twice, say whose GPU is behind. By
/// process: a communicator's ranks are GPUs, or members of a group, and may be another job's.
std::optional<Ruling> rule_by_ras(const Scene& scene) {
  Seen behind;
  for (const RasEvidence& ras : scene.evidence->ras) {
    for (const std::int64_t pid : ras.lagging_pids) {
      const SeenRank* seen = find_process(scene.ranks, pid);
      if (seen != nullptr && std::ranges::find(behind, seen) == behind.end()) behind.push_back(seen);
    }
  }
  if (behind.empty() || 2 * behind.size() > scene.ranks.size()) return std::nullopt;
  Ruling ruling{Verdict::rank_lagging};
  blame_ranks(ruling, behind);
  ruling.sentence = fmt::format("{} {} behind by the counters of NCCL's RAS; the processes themselves are all {}",
                                who(behind), are(behind.size()), doing(*behind.front()->flight));
  return ruling;
}

}  // namespace

std::optional<Ruling> find_slow(const Scene& scene) {
  constexpr double kTraffic = 256 * 1024;
  const HangEvidence& evidence = *scene.evidence;
  // Where the limit has passed for all, only what is younger than the limit can be movement.
  const bool by_limit = evidence.occasion == Occasion::limit && evidence.limit_s > 0;
  const double moving_s = by_limit ? std::min(5.0, evidence.limit_s) : 5.0;
  const Seen moving = those(scene, [&](const SeenRank& seen) {
    const bool is_there = evidence.occasion == Occasion::files ? seen.process.life == ProcessState::Life::alive
                                                               : seen.process.life != ProcessState::Life::gone;
    const bool runs = seen.condition == Condition::running && is_there;
    return runs && seen.flight->idle_s < moving_s && seen.flight->heartbeat_age_s < moving_s;
  });
  std::vector<std::string> busy;
  for (const HostEvidence* host : scene.reached) {
    if (host->net_bytes_per_s > kTraffic) {
      busy.push_back(fmt::format("{}: {}/s over its network", host->host,
                                 format_bytes(static_cast<std::uint64_t>(std::min(host->net_bytes_per_s, 1e15)))));
    }
  }
  if (evidence.occasion != Occasion::slow_limit && moving.empty() && busy.empty()) return std::nullopt;
  if (evidence.occasion == Occasion::files && moving.empty()) return std::nullopt;
  Ruling ruling;
  const bool live = evidence.occasion == Occasion::files;
  ruling.verdict = live ? Verdict::ok : Verdict::slow_not_hung;
  ruling.evidence = busy;
  if (!moving.empty()) {
    ruling.sentence =
        fmt::format("{}: {} of {} ranks advanced within the last {:.0f} s",
                    live ? "the job moves" : "slow, but it moves", moving.size(), scene.ranks.size(), moving_s);
  } else if (!busy.empty()) {
    ruling.sentence = fmt::format("slow, but data move: {}", busy.front());
  } else {
    ruling.sentence = "slow: it moved until lately";
  }
  ruling.sentence += waiting(scene, {}, "");
  return ruling;
}

std::optional<Ruling> find_lagging(const Scene& scene) {
  const Seen all = not_at_their_end(scene);
  const Levels levels = levels_of(all);
  if (levels.size() < 2) return std::nullopt;
  const Seen* largest = nullptr;
  Seen above;
  for (const auto& [progress, ranks] : levels) {
    if (largest == nullptr || ranks.size() >= largest->size()) largest = &ranks;
    if (progress != levels.begin()->first) above.insert(above.end(), ranks.begin(), ranks.end());
  }
  const Seen& lowest = levels.begin()->second;
  if (2 * lowest.size() <= all.size()) {
    return rule_behind(scene, lowest, &lowest == largest ? std::prev(levels.end())->second : *largest);
  }
  return rule_ahead(scene, lowest, above);
}

std::optional<Ruling> find_stuck_inside(const Scene& scene) {
  const Seen all = not_at_their_end(scene);
  if (all.empty()) return std::nullopt;
  const Levels levels = levels_of(all);
  if (auto ruling = rule_by_ras(scene); ruling && levels.size() == 1) return ruling;
  const Seen& largest = largest_of(levels);
  Ruling ruling{Verdict::stuck_inside};
  const FlightState& f = *largest.front()->flight;
  const std::string where = inside(f) ? "inside " + operation(*f.call, f.entered) : doing(f);
  ruling.sentence =
      levels.size() == 1
          ? fmt::format("all {} {} {}, and none comes out", counted(all.size(), "rank"), are(all.size()), where)
          : fmt::format("{} of {} ranks are {}, the others past it, as this collective allows", largest.size(),
                        all.size(), where);
  ruling.sentence += absent_words(scene);
  return ruling;
}

}  // namespace busbar
