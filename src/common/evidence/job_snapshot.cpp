#include "common/evidence/job_snapshot.h"

#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace busbar {
namespace {

using Condition = SeenRank::Condition;
using Life = ProcessState::Life;
using Stage = Advance::Stage;
using Occasion = HangEvidence::Occasion;

constexpr double kSilent = 10;  ///< a watcher beats every half second
constexpr double kFresh = 3;
constexpr double kMissed = 0.9;  ///< two beats, less the delays of a scheduler

/// For a rank in no operation, in the order of Phase.
constexpr std::array kStages{Stage::starting, Stage::mpi_init,    Stage::initialization, Stage::own_work,
                             Stage::own_work, Stage::before_call, Stage::before_call,    Stage::with_others,
                             Stage::own_work, Stage::finishing,   Stage::finishing,      Stage::own_work,
                             Stage::finishing};
static_assert(kStages.size() == static_cast<std::size_t>(Phase::ended) + 1);

/// For a rank without a record, in the order of Activity::Kind.
constexpr std::array kActivityStages{Stage::with_others, Stage::inside, Stage::initialization, Stage::own_work,
                                     Stage::before_call, Stage::inside, Stage::finishing,      Stage::own_work};
static_assert(kActivityStages.size() == static_cast<std::size_t>(Activity::Kind::idle) + 1);

Advance progress_of(const RankEvidence& rank) {
  const FlightState& f = rank.flight;
  if (rank.activity) return {0, kActivityStages[static_cast<std::size_t>(rank.activity->kind)]};
  if (inside(f)) return {f.entered, Stage::inside};
  // `busbar compare` opens further communicators between operations.
  const bool is_further = f.phase == Phase::initialization && f.entered > 0;
  return {f.entered, is_further ? Stage::with_others : kStages[static_cast<std::size_t>(f.phase)]};
}

bool is_zombie(const ProcessState& process) { return process.state == 'Z' || process.state == 'X'; }

/// Gone by /proc. A process that beat a moment ago is in another pid namespace, unless the job is being ended.
bool is_gone(const SeenRank& seen, Occasion occasion) {
  if (is_zombie(seen.process)) return true;
  if (seen.process.life != Life::gone) return false;
  constexpr double kBeat = 1.5;
  return occasion == Occasion::terminated || occasion == Occasion::files || seen.flight->heartbeat_age_s > kBeat ||
         seen.flight->ending != Ending::none;
}

Condition condition_of(const SeenRank& seen, bool neighbour_fresh, Occasion occasion) {
  if (is_gone(seen, occasion)) {
    const Ending ending = seen.flight->ending;
    return ending == Ending::none || ending == Ending::failed ? Condition::lost : Condition::ended;
  }
  if (seen.process.state == 'T' || seen.process.state == 't') return Condition::stopped;
  // A rank that has just got the launcher's signal is still where it was.
  const bool lives_on = occasion == Occasion::terminated && seen.flight->ending == Ending::signalled;
  if (seen.flight->ending != Ending::none && !lives_on) return Condition::ended;
  // A rank that runs, or waits for a core, is not frozen, however late its watcher.
  if (seen.flight->heartbeat_age_s > kSilent && neighbour_fresh && seen.process.state != 'R') return Condition::frozen;
  return Condition::running;
}

/// If a whole job was killed at once, only the ranks that fell silent before the others are lost.
void forgive_common_end(std::vector<SeenRank>& ranks, Occasion occasion) {
  const auto unexplained = [](const SeenRank& seen) { return seen.condition == Condition::lost; };
  if (ranks.size() < 2 || !std::ranges::all_of(ranks, unexplained)) return;
  double newest = HUGE_VAL;
  for (const SeenRank& seen : ranks) newest = std::min(newest, seen.flight->heartbeat_age_s);
  std::map<const HostEvidence*, double> newest_of_host;
  for (const SeenRank& seen : ranks) {
    double& newest_there = newest_of_host.try_emplace(seen.host, HUGE_VAL).first->second;
    newest_there = std::min(newest_there, seen.flight->heartbeat_age_s);
  }
  for (SeenRank& seen : ranks) {
    const double age_s = seen.flight->heartbeat_age_s;
    // The last beats in the records show who fell silent first, by one clock per host. srun ends a step a second or
    // more after one of its tasks was killed.
    const bool first = occasion == Occasion::files && age_s - newest_of_host[seen.host] > kMissed;
    if (seen.flight->ending == Ending::none && age_s - newest < kFresh && !first) seen.condition = Condition::ended;
  }
}

/// How much longer than its ended neighbors a rank has been silent [s]; nullopt if it has none.
std::optional<double> silent_before_neighbours(const SeenRank& silent, const std::vector<SeenRank>& ranks) {
  std::optional<double> newest;
  for (const SeenRank& seen : ranks) {
    if (seen.host != silent.host || seen.flight->ending == Ending::none) continue;
    newest = std::min(newest.value_or(HUGE_VAL), seen.flight->heartbeat_age_s);
  }
  if (!newest) return std::nullopt;
  return silent.flight->heartbeat_age_s - *newest;
}

/// Whether it had not advanced for less than kMovedWithin.
bool moved_at_its_end(const FlightState& flight) {
  const double still_s = still_at_its_end(flight);
  return still_s >= 0 && still_s < kMovedWithin;
}

/// A launcher kills the ranks at once that do not end on its first signal. A lost rank was killed this way if it was
/// not silent before its neighbors, and others had long been silent or the job had moved until then.
void forgive_killed_late(std::vector<SeenRank>& ranks) {
  const auto is_lost = [](const SeenRank& seen) { return seen.condition == Condition::lost; };
  const bool any_before = std::ranges::any_of(ranks, [&](const SeenRank& seen) {
    return is_lost(seen) && silent_before_neighbours(seen, ranks).value_or(0) > kMissed;
  });
  const bool moved = std::ranges::all_of(ranks, [](const SeenRank& seen) { return moved_at_its_end(*seen.flight); });
  if (!any_before && !moved) return;
  for (SeenRank& seen : ranks) {
    if (is_lost(seen) && seen.flight->ending == Ending::none &&
        silent_before_neighbours(seen, ranks).value_or(HUGE_VAL) <= kMissed)
      seen.condition = Condition::ended;
  }
}

/// For records from files, perhaps of other hosts, /proc shows nothing. In a job that was ended, the ranks that did not
/// end with the others were lost before.
void miss_the_silent(const HangEvidence& evidence, std::vector<SeenRank>& ranks) {
  if (evidence.occasion != Occasion::files) return;
  const auto ended = [](const SeenRank& seen) {
    return seen.flight->ending == Ending::signalled || seen.flight->ending == Ending::hung ||
           seen.flight->ending == Ending::failed;
  };
  if (std::ranges::none_of(ranks, ended)) return;
  for (SeenRank& seen : ranks) {
    const bool silent = seen.flight->ending == Ending::none && seen.process.life == Life::unknown;
    if (silent && seen.condition == Condition::running) seen.condition = Condition::lost;
  }
  forgive_killed_late(ranks);
}

/// RAS watches the processes of its communicators over its own sockets.
void believe_ras(const HangEvidence& evidence, std::vector<SeenRank>& ranks) {
  for (const RasEvidence& ras : evidence.ras) {
    for (const std::int64_t pid : ras.dead_pids) {
      const SeenRank* const found = find_process(ranks, pid);
      if (found == nullptr) continue;
      SeenRank& seen = ranks[static_cast<std::size_t>(found - ranks.data())];
      const bool unknown = seen.process.life == Life::unknown && seen.flight->ending == Ending::none;
      if (unknown && seen.flight->heartbeat_age_s > kSilent) seen.condition = Condition::lost;
    }
  }
}

std::vector<SeenRank> see_ranks(const HangEvidence& evidence) {
  std::map<int, SeenRank> by_rank;
  for (const HostEvidence& host : evidence.hosts) {
    double freshest = HUGE_VAL;
    for (const RankEvidence& r : host.ranks) {
      const bool gone = r.process.life == Life::gone || r.flight.ending != Ending::none;
      if (!gone) freshest = std::min(freshest, r.flight.heartbeat_age_s);
    }
    for (const RankEvidence& r : host.ranks) {
      SeenRank seen{r.flight.rank,      &host,         &r.flight, r.activity ? &*r.activity : nullptr, r.process,
                    Condition::running, progress_of(r)};
      seen.condition = condition_of(seen, freshest < kFresh, evidence.occasion);
      // Of two records of one rank (files of two jobs), the younger one counts.
      const auto [at, added] = by_rank.try_emplace(seen.rank, seen);
      if (!added && seen.flight->heartbeat_age_s < at->second.flight->heartbeat_age_s) at->second = seen;
    }
  }
  std::vector<SeenRank> ranks = mapped(by_rank, &std::pair<const int, SeenRank>::second);
  forgive_common_end(ranks, evidence.occasion);
  miss_the_silent(evidence, ranks);
  believe_ras(evidence, ranks);
  return ranks;
}

/// Expected ranks without a record.
void find_absent(JobSnapshot& snapshot) {
  const std::vector<std::string>& host_of = snapshot.evidence->host_of_rank;
  std::set<std::string> answered;
  for (const HostEvidence* host : snapshot.reached) answered.insert(host->host);
  const RankList absent = missing_ranks(mapped(snapshot.ranks, &SeenRank::rank), snapshot.nprocs);
  for (const auto& [first, last] : absent.ranges()) {
    int rank = first;
    for (; rank <= last && static_cast<std::size_t>(rank) < host_of.size(); ++rank)
      (answered.contains(host_of[rank]) ? snapshot.recordless : snapshot.unheard).add(rank);
    if (rank <= last) snapshot.unheard.add({rank, last});
  }
}

/// The step's name after its operation's: "checking ring" says more than "check".
std::string part_of_step(const FlightState& f) {
  const std::size_t comma = f.step.rfind(", ");
  return comma == std::string::npos ? std::string(name(f.phase)) : f.step.substr(comma + 2);
}

}  // namespace

const SeenRank* find_process(std::span<const SeenRank> ranks, std::int64_t pid) {
  const auto same = [&](const SeenRank& seen) { return seen.flight->pid == pid; };
  if (std::ranges::count_if(ranks, same) != 1) return nullptr;
  return &*std::ranges::find_if(ranks, same);
}

const SeenRank* JobSnapshot::find(int rank) const {
  const auto at = std::ranges::lower_bound(ranks, rank, {}, &SeenRank::rank);
  return at != ranks.end() && at->rank == rank ? &*at : nullptr;
}

JobSnapshot make_snapshot(const HangEvidence& evidence) {
  JobSnapshot snapshot;
  snapshot.evidence = &evidence;
  snapshot.ranks = see_ranks(evidence);
  for (const HostEvidence& host : evidence.hosts) {
    const bool reached = host.reached || !host.ranks.empty();
    (reached ? snapshot.reached : host.ever_reached ? snapshot.unreached : snapshot.never_reached).push_back(&host);
  }
  for (const HostEvidence* host : snapshot.unreached) {
    const bool unproven = host->silence == Silence::refused && !links_to(evidence, host->host);
    if (unproven || is_walled(evidence, *host)) snapshot.walled.push_back(host);
  }
  snapshot.nprocs = std::max(evidence.nprocs, static_cast<int>(evidence.host_of_rank.size()));
  if (snapshot.nprocs == 0)
    for (const SeenRank& seen : snapshot.ranks) snapshot.nprocs = std::max(snapshot.nprocs, seen.flight->nprocs);
  find_absent(snapshot);
  return snapshot;
}

void Symptom::blame(const Seen& these) {
  for (const SeenRank* seen : these) {
    ranks.insert(seen->rank);
    hosts.insert(seen->host->host);
  }
}

void Symptom::blame(const JobSnapshot& snapshot, Trouble::Kind kind,
                    const std::function<bool(const HostEvidence&)>& counts) {
  for (const HostEvidence* host : snapshot.reached) {
    for (const Trouble& trouble : host->troubles) {
      if (trouble.kind != kind || !counts(*host)) continue;
      hosts.insert(host->host);
      if (evidence.empty()) about_gpu = trouble.on_gpu;  // the trouble that is reported first
      evidence.push_back(fmt::format("{}: {}", host->host, trouble.text));
    }
  }
}

Seen not_at_their_end(const JobSnapshot& snapshot) {
  return those(snapshot, [](const SeenRank& seen) { return seen.flight->ending != Ending::good; });
}

Levels levels_of(const Seen& ranks) {
  Levels levels;
  for (const SeenRank* seen : ranks) levels[seen->progress].push_back(seen);
  return levels;
}

const Seen& largest_of(const Levels& levels) {
  return std::ranges::max_element(levels, {}, [](const auto& level) { return level.second.size(); })->second;
}

// Words.

double still_at_its_end(const FlightState& flight) { return flight.idle_s - flight.heartbeat_age_s; }

bool inside(const FlightState& flight) { return flight.call && flight.entered > flight.step_first; }

std::uint64_t last_finished(const FlightState& flight) { return inside(flight) ? flight.entered - 1 : flight.entered; }

std::string operation(const CalledOperation& call, std::uint64_t number) {
  std::string text = fmt::format("{} #{}, {} {}", call.collective, number, format_bytes(call.nbytes), call.dtype);
  if (!call.op.empty() && call.op != "none") text += " " + call.op;
  if (call.root >= 0) text += fmt::format(", root {}", call.root);
  if (call.communicator != 0) text += fmt::format(", communicator {}", call.communicator);
  return text;
}

std::string doing(const FlightState& f) {
  if (inside(f)) return fmt::format("inside {}, {}", operation(*f.call, f.entered), part_of_step(f));
  if (f.call && (f.phase == Phase::timed_loop || f.phase == Phase::checking))
    return fmt::format("before {}, {}", operation(*f.call, f.entered + 1), part_of_step(f));
  const std::string phase(name(f.phase));
  if (f.phase == Phase::output && !f.step.empty() && f.entered == 0) return f.step;  // "reading --config x.yaml"
  const bool by_name = f.phase == Phase::mpi_init || f.phase == Phase::mpi_finalize;
  if (by_name && !f.step.empty() && f.step != phase) return f.step;  // "meeting ...", "freeing ..."
  std::string text = f.phase == Phase::starting  ? "starting"
                     : f.phase == Phase::ended   ? "at its end"
                     : f.phase == Phase::resting ? "idle"
                                                 : "in " + phase;
  if (!f.step.empty() && f.step != phase && f.phase != Phase::resting) text += fmt::format(" ({})", f.step);
  if (f.entered > 0) text += fmt::format(", after operation #{}", f.entered);
  return text;
}

std::string doing(const SeenRank& seen) {
  return seen.activity != nullptr ? seen.activity->doing : doing(*seen.flight);
}

std::string last_beat(const SeenRank& seen) {
  if (seen.activity != nullptr) return {};
  return fmt::format(", last heartbeat {} ago", seconds(seen.flight->heartbeat_age_s));
}

std::string rank_words(const RankList& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const std::string list = compress_ranks(ranks);
  constexpr std::size_t kShort = 40;
  if (ranks.size() <= 8 && list.size() <= kShort) return "ranks " + list;
  if (list.size() <= kShort) return fmt::format("{} ranks ({})", ranks.size(), list);
  const std::size_t cut = list.rfind(',', kShort);
  return fmt::format("{} ranks ({},...)", ranks.size(), list.substr(0, cut));
}

std::string few_hosts(const std::vector<std::string>& names) {
  constexpr std::size_t kFew = 3;
  if (names.size() <= kFew) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} hosts ({}, ...)", names.size(), names.front());
}

std::string who(const Seen& ranks) {
  if (ranks.empty()) return "no rank";
  constexpr std::size_t kFew = 4;
  if (!std::ranges::all_of(ranks, is_named, &SeenRank::rank)) {
    std::vector<std::string> names =
        mapped(ranks, [](const SeenRank* seen) { return fmt::format("{}:{}", seen->host->host, seen->flight->pid); });
    if (names.size() > kFew) names.resize(kFew), names.emplace_back("...");
    return fmt::format("{} ({})", counted(ranks.size(), "process"), fmt::join(names, ", "));
  }
  if (ranks.size() == 1) {
    const SeenRank& seen = *ranks.front();
    return fmt::format("rank {} on {} (pid {})", seen.rank, seen.host->host, seen.flight->pid);
  }
  Symptom all;
  all.blame(ranks);
  const std::string words = rank_words(RankList(all.ranks));
  if (all.hosts.size() > kFew) return fmt::format("{} on {} hosts", words, all.hosts.size());
  return fmt::format("{} on {}", words, fmt::join(all.hosts, ", "));
}

std::string waiting(const JobSnapshot& snapshot, const std::set<int>& blamed, std::string_view whom) {
  const Levels groups = levels_of(those(snapshot, [&](const SeenRank& seen) {
    return seen.condition == SeenRank::Condition::running && !blamed.contains(seen.rank);
  }));
  if (groups.empty()) return {};
  const Seen& ranks = largest_of(groups);
  const FlightState& f = *ranks.front()->flight;
  const std::string where = inside(f) ? "in " + operation(*f.call, f.entered) : doing(*ranks.front());
  const std::string count = counted(ranks.size(), "rank");
  if (ranks.front()->activity != nullptr && !whom.empty())
    return fmt::format("; {} wait{} for {}: {}", count, ranks.size() == 1 ? "s" : "", whom, where);
  if (whom.empty()) return fmt::format("; {} {} {}", count, are(ranks.size()), where);
  return fmt::format("; {} wait{} for {} {}", count, ranks.size() == 1 ? "s" : "", whom, where);
}

std::string unheard_words(const JobSnapshot& snapshot) {
  return snapshot.unheard.empty() ? "" : fmt::format("; {} not heard from", rank_words(snapshot.unheard));
}

std::string_view are(std::size_t ranks) { return ranks == 1 ? "is" : "are"; }

std::set<int> ranks_on(const JobSnapshot& snapshot, const std::set<std::string>& hosts) {
  std::set<int> ranks;
  const std::vector<std::string>& host_of = snapshot.evidence->host_of_rank;
  for (std::size_t r = 0; r < host_of.size(); ++r)
    if (hosts.contains(host_of[r])) ranks.insert(static_cast<int>(r));
  return ranks;
}

std::string seconds(double time_s) {
  return time_s < 10 ? fmt::format("{:.1f} s", time_s) : fmt::format("{:.0f} s", time_s);
}

Seen first_few(const Seen& ranks) {
  constexpr std::size_t kFew = 8;
  return {ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), kFew))};
}

}  // namespace busbar
