#include "common/base/sequences.h"
#include "common/watch/judge_scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <string_view>

namespace busbar {
namespace {

using Condition = SeenRank::Condition;

Seen those(const Scene& scene, Condition condition) {
  return those(scene, [&](const SeenRank& seen) { return seen.condition == condition; });
}

/// That wait for the ones to blame.
std::string and_waiting(const Scene& scene, const Ruling& ruling) {
  return waiting(scene, ruling.ranks, ruling.ranks.size() == 1 ? "it" : "them");
}

/// What a library's or the suite's own error text says for certain; a victim's "connection closed" says nothing.
struct Symptom {
  std::string_view text;
  Verdict verdict;
};
constexpr std::array kSymptoms = {
    Symptom{"No space left on device", Verdict::resource},
    Symptom{"Cannot allocate memory", Verdict::resource},
    Symptom{"out of memory", Verdict::resource},
    Symptom{"Too many open files", Verdict::resource},
    Symptom{"failed to extend /dev/shm", Verdict::resource},
    Symptom{"Duplicate GPU", Verdict::config},
    Symptom{"Multiple Ranks are using the same GPU", Verdict::config},  // the same from NCCL 2.30 on
    Symptom{"Mismatched NCCL version", Verdict::config},
};

bool says(std::string_view error, Verdict verdict) {
  return std::ranges::any_of(kSymptoms, [&](const Symptom& symptom) {
    return symptom.verdict == verdict && error.find(symptom.text) != std::string_view::npos;
  });
}

Seen complaining(const Scene& scene, Verdict verdict) {
  return those(scene, [&](const SeenRank& seen) { return says(seen.flight->error, verdict); });
}

std::string error_words(const SeenRank* seen) { return fmt::format("{}: {}", who({seen}), seen->flight->error); }

/// Something on this host failed, so that what is used up there matters.
bool has_errors(const Scene& scene, const HostEvidence& host) {
  return std::ranges::any_of(scene.ranks, [&](const SeenRank& seen) {
    return seen.host == &host && (!seen.flight->error.empty() || seen.flight->ending == Ending::failed);
  });
}

/// Hosts that answer, but on which no process of the job listens any more, and to which the job's own connections are
/// closed: a refusal alone may be a firewall's. Processes that leave when their job is ended do not leave together, so
/// that then only few such hosts tell something.
std::optional<Ruling> find_emptied_hosts(const Scene& scene) {
  Ruling ruling{Verdict::process_dead};
  std::size_t refusing = 0;
  for (const HostEvidence* host : scene.unreached) {
    if (host->silence != Silence::refused) continue;
    ++refusing;
    if (links_to(*scene.evidence, host->host) != JobLink::State::closed) continue;
    ruling.hosts.insert(host->host);
    ruling.evidence.push_back(fmt::format("{}: {}", host->host, host->why_not));
  }
  const bool ended = scene.evidence->occasion == HangEvidence::Occasion::terminated;
  if (ruling.hosts.empty() || (ended && 2 * refusing >= scene.evidence->hosts.size())) return std::nullopt;
  if (is_refused_by_all(scene)) return std::nullopt;
  ruling.ranks = ranks_on(scene, ruling.hosts);
  const RankList ranks(ruling.ranks);
  const std::string where =
      ruling.hosts.size() == 1 ? *ruling.hosts.begin() : fmt::format("{} hosts", ruling.hosts.size());
  ruling.sentence = fmt::format("no process is left on {}{}: connection refused, and MPI's connections are closed",
                                where, ranks.empty() ? "" : fmt::format(" ({})", rank_words(ranks)));
  ruling.sentence += and_waiting(scene, ruling);
  return ruling;
}

/// Ranks that are ended because what had started them died: then they themselves are well until they are ended.
std::optional<Ruling> find_dead_launcher(const Scene& scene) {
  if (scene.evidence->occasion != HangEvidence::Occasion::terminated) return std::nullopt;
  Ruling ruling{Verdict::process_dead};
  ruling.blame(scene, Trouble::Kind::launcher);
  // Where that is so everywhere, the job was ended in this way.
  if (ruling.hosts.empty() || ruling.hosts.size() == scene.evidence->hosts.size()) return std::nullopt;
  ruling.blame(those(scene, [&](const SeenRank& seen) { return ruling.hosts.contains(seen.host->host); }));
  ruling.sentence = ruling.evidence.front() + ": the launcher ends the job for it";
  return ruling;
}

/// Those that fell silent first, and of these the ones that said nothing: an error may come from losing a peer.
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

/// A launcher that has lost a host ends all others, and kills at once who does not end on its first signal: beside a
/// host of which nobody is left, a rank whose neighbour got that signal is one of those.
Seen without_killed_late(const Scene& scene, const Seen& dead) {
  if (scene.evidence->occasion != HangEvidence::Occasion::terminated) return dead;
  std::set<const HostEvidence*> alive, signalled;
  for (const SeenRank& seen : scene.ranks) {
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

bool died_of_mismatch(const Scene& scene) {
  // A library that sees arguments that do not match says so in its own way ("message truncated"), and the process ends.
  const Seen dead = first_lost(those(scene, Condition::lost));
  return !dead.empty() && all_failed(dead) && find_call_mismatch(scene);
}

std::optional<Ruling> find_dead(const Scene& scene) {
  const Seen lost = those(scene, Condition::lost);
  if (lost.empty()) {
    const std::optional<Ruling> emptied = find_emptied_hosts(scene);
    return emptied ? emptied : find_dead_launcher(scene);
  }
  if (died_of_mismatch(scene)) return std::nullopt;
  const Seen dead = without_killed_late(scene, first_lost(lost));
  Ruling ruling{Verdict::process_dead};
  ruling.blame(dead);
  const bool failed = all_failed(dead);
  const bool zombie = dead.front()->process.state == 'Z';
  const std::string_view how = failed            ? "ended after an error"
                               : dead.size() > 1 ? "are gone without a word (killed, or crashed)"
                               : zombie          ? "is dead (a zombie: killed, or crashed)"
                                                 : "is gone without a word (killed, or crashed)";
  ruling.sentence = fmt::format("{} {}", who(dead), how) + and_waiting(scene, ruling);
  for (const SeenRank* seen : first_few(dead)) {
    std::string line = fmt::format("{}: {}, last heartbeat {} ago", who({seen}), doing(*seen->flight),
                                   seconds(seen->flight->heartbeat_age_s));
    if (!seen->flight->error.empty()) line += ", error: " + seen->flight->error;
    ruling.evidence.push_back(std::move(line));
  }
  for (const SeenRank* seen : lost) {
    if (ruling.ranks.contains(seen->rank) || ruling.evidence.size() > 16) continue;
    ruling.evidence.push_back(fmt::format("{} ended later, last heartbeat {} ago{}", who({seen}),
                                          seconds(seen->flight->heartbeat_age_s),
                                          seen->flight->error.empty() ? "" : ", error: " + seen->flight->error));
  }
  return ruling;
}

std::optional<Ruling> find_stopped(const Scene& scene) {
  Seen stopped = those(scene, Condition::stopped);
  const bool frozen = stopped.empty();
  if (frozen) stopped = those(scene, Condition::frozen);
  if (stopped.empty()) return std::nullopt;
  Ruling ruling{Verdict::process_stopped};
  ruling.blame(stopped);
  const SeenRank& first = *stopped.front();
  const std::string_view is = are(stopped.size());
  if (!frozen) {
    const bool traced = first.process.state == 't';
    ruling.sentence = fmt::format("{} {} {} (state {})", who(stopped), is, traced ? "held by a debugger" : "stopped",
                                  first.process.state);
  } else {
    ruling.sentence = fmt::format("{} {} frozen: no heartbeat for {}, while a neighbour's is fresh", who(stopped), is,
                                  seconds(first.flight->heartbeat_age_s));
  }
  ruling.sentence += and_waiting(scene, ruling);
  for (const SeenRank* seen : first_few(stopped)) {
    std::string line =
        fmt::format("{}: state {}, last finished #{}, last heartbeat {} ago", who({seen}), seen->process.state,
                    last_finished(*seen->flight), seconds(seen->flight->heartbeat_age_s));
    if (!seen->process.wchan.empty()) line += ", sleeps in " + seen->process.wchan;
    ruling.evidence.push_back(std::move(line));
  }
  return ruling;
}

std::optional<Ruling> find_resource(const Scene& scene) {
  Ruling ruling{Verdict::resource};
  const Seen complaints = complaining(scene, Verdict::resource);
  ruling.blame(scene, Trouble::Kind::resource, [&](const HostEvidence& host) { return has_errors(scene, host); });
  std::ranges::move(mapped(first_few(complaints), error_words), std::back_inserter(ruling.evidence));
  if (ruling.evidence.empty()) return std::nullopt;
  ruling.blame(complaints);
  ruling.sentence = ruling.evidence.front() + and_waiting(scene, ruling);
  return ruling;
}

std::optional<Ruling> find_config(const Scene& scene) {
  const Seen complaints = complaining(scene, Verdict::config);
  if (complaints.empty()) return std::nullopt;
  Ruling ruling{Verdict::config};
  ruling.blame(complaints);
  ruling.sentence = fmt::format("{}: {}", who(complaints), complaints.front()->flight->error);
  ruling.evidence = mapped(first_few(complaints), error_words);
  return ruling;
}

}  // namespace busbar
