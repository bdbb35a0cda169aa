#include "common/base/lists.h"
#include "common/evidence/job_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

namespace busbar {
namespace {

using Condition = SeenRank::Condition;

Seen those(const JobSnapshot& snapshot, Condition condition) {
  return those(snapshot, [&](const SeenRank& seen) { return seen.condition == condition; });
}

/// Appends the ranks that wait for the blamed ones.
std::string and_waiting(const JobSnapshot& snapshot, const Symptom& symptom) {
  return waiting(snapshot, symptom.ranks, symptom.ranks.size() == 1 ? "it" : "them");
}

/// Error texts of libraries and this suite that prove a cause; a victim's "connection closed" proves nothing.
constexpr std::pair<std::string_view, Verdict> kKnownErrors[] = {
    {"No space left on device", Verdict::resource},
    {"Cannot allocate memory", Verdict::resource},
    {"out of memory", Verdict::resource},
    {"Too many open files", Verdict::resource},
    {"failed to extend /dev/shm", Verdict::resource},
    {"Duplicate GPU", Verdict::config},
    {"Multiple Ranks are using the same GPU", Verdict::config},  // the same from NCCL 2.30 on
    {"Mismatched NCCL version", Verdict::config},
};

Seen complaining(const JobSnapshot& snapshot, Verdict verdict) {
  return those(snapshot, [&](const SeenRank& seen) {
    return std::ranges::any_of(kKnownErrors, [&](const auto& known) {
      return known.second == verdict && seen.flight->error.find(known.first) != std::string::npos;
    });
  });
}

std::string error_words(const SeenRank* seen) { return fmt::format("{}: {}", who({seen}), seen->flight->error); }

/// Whether something on this host failed, so that used-up resources there matter.
bool has_errors(const JobSnapshot& snapshot, const HostEvidence& host) {
  return std::ranges::any_of(snapshot.ranks, [&](const SeenRank& seen) {
    return seen.host == &host && (!seen.flight->error.empty() || seen.flight->ending == Ending::failed);
  });
}

/// Hosts that answer, but on which no process of the job listens any more and to which the job's own connections are
/// closed; a refusal alone may be a firewall's. The processes of a job that is being ended do not leave together, so
/// then only a few such hosts prove something.
std::optional<Symptom> find_emptied_hosts(const JobSnapshot& snapshot) {
  Symptom symptom{Verdict::process_dead};
  std::size_t refusing = 0;
  for (const HostEvidence* host : snapshot.unreached) {
    if (host->silence != Silence::refused) continue;
    ++refusing;
    if (links_to(*snapshot.evidence, host->host) != JobLink::State::closed) continue;
    symptom.hosts.insert(host->host);
    symptom.evidence.push_back(fmt::format("{}: {}", host->host, host->why_not));
  }
  const bool ended = snapshot.evidence->occasion == HangEvidence::Occasion::terminated;
  if (symptom.hosts.empty() || (ended && 2 * refusing >= snapshot.evidence->hosts.size())) return std::nullopt;
  if (is_refused_by_all(snapshot)) return std::nullopt;
  symptom.ranks = ranks_on(snapshot, symptom.hosts);
  const RankList ranks(symptom.ranks);
  const std::string where =
      symptom.hosts.size() == 1 ? *symptom.hosts.begin() : fmt::format("{} hosts", symptom.hosts.size());
  symptom.sentence = fmt::format("no process is left on {}{}: connection refused, and the job's connections are closed",
                                 where, ranks.empty() ? "" : fmt::format(" ({})", rank_words(ranks)));
  symptom.sentence += and_waiting(snapshot, symptom);
  return symptom;
}

/// Ranks that are ended because their launcher or its daemon died: they are healthy until then.
std::optional<Symptom> find_dead_launcher(const JobSnapshot& snapshot) {
  if (snapshot.evidence->occasion != HangEvidence::Occasion::terminated) return std::nullopt;
  Symptom symptom{Verdict::process_dead};
  symptom.blame(snapshot, Trouble::Kind::launcher);
  // If that is so on all hosts, the job was ended in this way.
  if (symptom.hosts.empty() || symptom.hosts.size() == snapshot.evidence->hosts.size()) return std::nullopt;
  symptom.blame(those(snapshot, [&](const SeenRank& seen) { return symptom.hosts.contains(seen.host->host); }));
  symptom.sentence = symptom.evidence.front() + ", so the launcher ends the job";
  return symptom;
}

/// The ranks that fell silent first; of these, those that reported nothing, because an error may come from a lost peer.
Seen first_lost(const Seen& lost) {
  constexpr double kTogether = 3;
  double oldest = -std::numeric_limits<double>::infinity();  // a clock that was set makes ages negative
  for (const SeenRank* seen : lost) oldest = std::max(oldest, seen->flight->heartbeat_age_s);
  Seen first, silent;
  for (const SeenRank* seen : lost) {
    if (seen->flight->heartbeat_age_s < oldest - kTogether) continue;
    first.push_back(seen);
    if (seen->flight->ending == Ending::none) silent.push_back(seen);
  }
  return silent.empty() ? first : silent;
}

bool all_failed(const Seen& dead) {
  return std::ranges::all_of(dead, [](const SeenRank* seen) { return seen->flight->ending == Ending::failed; });
}

/// A launcher that has lost a host ends all others, and kills at once the ranks that do not end on its first signal. If
/// a host has no rank left, a lost rank whose neighbor got that signal was killed this way.
Seen without_killed_late(const JobSnapshot& snapshot, const Seen& dead) {
  if (snapshot.evidence->occasion != HangEvidence::Occasion::terminated) return dead;
  std::set<const HostEvidence*> alive, signalled;
  for (const SeenRank& seen : snapshot.ranks) {
    if (seen.condition != Condition::lost) alive.insert(seen.host);
    if (seen.flight->ending == Ending::signalled) signalled.insert(seen.host);
  }
  Seen first;
  bool any_host_empty = false;
  for (const SeenRank* seen : dead) {
    any_host_empty = any_host_empty || !alive.contains(seen->host);
    if (!signalled.contains(seen->host)) first.push_back(seen);
  }
  return any_host_empty ? first : dead;
}

}  // namespace

bool died_of_mismatch(const JobSnapshot& snapshot) {
  // A library that sees mismatched arguments reports them in its own way ("message truncated"), and the process ends.
  const Seen dead = first_lost(those(snapshot, Condition::lost));
  return !dead.empty() && all_failed(dead) && find_call_mismatch(snapshot);
}

std::optional<Symptom> find_dead(const JobSnapshot& snapshot) {
  const Seen lost = those(snapshot, Condition::lost);
  if (lost.empty()) {
    const std::optional<Symptom> emptied = find_emptied_hosts(snapshot);
    return emptied ? emptied : find_dead_launcher(snapshot);
  }
  if (died_of_mismatch(snapshot)) return std::nullopt;
  const Seen dead = without_killed_late(snapshot, first_lost(lost));
  Symptom symptom{Verdict::process_dead};
  symptom.blame(dead);
  const bool failed = all_failed(dead);
  const bool zombie = dead.front()->process.state == 'Z';
  const std::string_view how = failed            ? "ended after an error"
                               : dead.size() > 1 ? "are gone without an error (killed or crashed)"
                               : zombie          ? "is dead (a zombie: killed or crashed)"
                                                 : "is gone without an error (killed or crashed)";
  symptom.sentence = fmt::format("{} {}", who(dead), how) + and_waiting(snapshot, symptom);
  for (const SeenRank* seen : first_few(dead)) {
    std::string line = fmt::format("{}: {}{}", who({seen}), doing(*seen), last_beat(*seen));
    if (!seen->flight->error.empty()) line += ", error: " + seen->flight->error;
    symptom.evidence.push_back(std::move(line));
  }
  for (const SeenRank* seen : lost) {
    if (symptom.ranks.contains(seen->rank) || symptom.evidence.size() > 16) continue;
    symptom.evidence.push_back(fmt::format("{} ended later{}{}", who({seen}), last_beat(*seen),
                                           seen->flight->error.empty() ? "" : ", error: " + seen->flight->error));
  }
  return symptom;
}

std::optional<Symptom> find_stopped(const JobSnapshot& snapshot) {
  Seen stopped = those(snapshot, Condition::stopped);
  const bool frozen = stopped.empty();
  if (frozen) stopped = those(snapshot, Condition::frozen);
  if (stopped.empty()) return std::nullopt;
  Symptom symptom{Verdict::process_stopped};
  symptom.blame(stopped);
  const SeenRank& first = *stopped.front();
  const std::string_view is = are(stopped.size());
  if (!frozen) {
    const bool traced = first.process.state == 't';
    symptom.sentence = fmt::format("{} {} {} (state {})", who(stopped), is, traced ? "held by a debugger" : "stopped",
                                   first.process.state);
  } else {
    symptom.sentence = fmt::format("{} {} frozen: no heartbeat for {}, while a neighbor's is fresh", who(stopped), is,
                                   seconds(first.flight->heartbeat_age_s));
  }
  symptom.sentence += and_waiting(snapshot, symptom);
  for (const SeenRank* seen : first_few(stopped)) {
    std::string line = fmt::format("{}: state {}", who({seen}), seen->process.state);
    line += seen->activity != nullptr
                ? ", " + doing(*seen)
                : fmt::format(", last finished #{}{}", last_finished(*seen->flight), last_beat(*seen));
    if (seen->activity != nullptr && !seen->activity->trouble.empty()) line += ", " + seen->activity->trouble;
    if (!seen->process.wchan.empty()) line += ", sleeps in " + seen->process.wchan;
    symptom.evidence.push_back(std::move(line));
  }
  return symptom;
}

std::optional<Symptom> find_resource(const JobSnapshot& snapshot) {
  Symptom symptom{Verdict::resource};
  const Seen complaints = complaining(snapshot, Verdict::resource);
  symptom.blame(snapshot, Trouble::Kind::resource,
                [&](const HostEvidence& host) { return has_errors(snapshot, host); });
  std::ranges::move(mapped(first_few(complaints), error_words), std::back_inserter(symptom.evidence));
  if (symptom.evidence.empty()) return std::nullopt;
  symptom.blame(complaints);
  symptom.sentence = symptom.evidence.front() + and_waiting(snapshot, symptom);
  return symptom;
}

std::optional<Symptom> find_config(const JobSnapshot& snapshot) {
  const Seen complaints = complaining(snapshot, Verdict::config);
  if (complaints.empty()) return std::nullopt;
  Symptom symptom{Verdict::config};
  symptom.blame(complaints);
  symptom.sentence = fmt::format("{}: {}", who(complaints), complaints.front()->flight->error);
  symptom.evidence = mapped(first_few(complaints), error_words);
  return symptom;
}

}  // namespace busbar
