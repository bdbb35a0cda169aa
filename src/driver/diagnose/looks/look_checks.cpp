#include "driver/diagnose/looks/look_checks.h"

#include "common/base/lists.h"
#include "common/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace busbar {
namespace {

Seen seen_of(const Looked& ranks) { return mapped(ranks, &RankFacts::seen); }

/// Where it tries to connect and nobody answers.
std::string dead_address(const RankFacts& rank) {
  const auto& sockets = rank.process->sockets;
  const auto dead = std::ranges::find(sockets, "SYN_SENT", &LookSocket::state);
  return dead == sockets.end() ? "" : dead->remote;
}

/// Where most of these ranks are to meet; empty if that is the same for all, or nobody's majority.
std::string usual_master(const Looked& ranks) {
  std::map<std::string, std::size_t> masters;
  for (const RankFacts* one : ranks) ++masters[one->process->master];
  const auto most = std::ranges::max_element(masters, {}, [](const auto& one) { return one.second; });
  return masters.size() > 1 && 2 * most->second > ranks.size() ? most->first : "";
}

void blame_gone(const LookedJob& job, Symptom& symptom) {
  const std::vector<std::string>& hosts = job.looks.evidence.host_of_rank;
  constexpr std::size_t kMost = 4096;
  for (const RankList::Range& range : job.gone.ranges()) {
    for (int rank = range.first; rank <= range.last && symptom.ranks.size() < kMost; ++rank) {
      symptom.ranks.insert(rank);
      const auto place = static_cast<std::size_t>(rank);
      if (place < hosts.size() && !hosts[place].empty()) symptom.hosts.insert(hosts[place]);
    }
  }
}

/// Only a scheduler knows all hosts of a job.
void add_doubt(const LookedJob& job, Symptom& symptom) {
  const auto is_bare = [&](const auto& host) { return symptom.hosts.contains(host.host) && host.ranks.empty(); };
  if (job.looks.looks->expected_hosts == 0 && std::ranges::any_of(job.looks.evidence.hosts, is_bare))
    symptom.evidence.emplace_back("another story: it runs on a host that was not named");
}

}  // namespace

LookedJob::LookedJob(const JobSnapshot& seen_job, const LookEvidence& evidence)
    : snapshot(seen_job), looks(evidence), gone(seen_job.recordless) {
  for (const SeenRank& seen : snapshot.ranks) {
    const RankFacts& one = looks.ranks.at(seen.rank);
    one.seen = &seen;
    if (seen.condition != SeenRank::Condition::running) continue;
    all.push_back(&one);
    Looked* const parts[] = {&unknown, &waiting, &joining, one.activity.moves ? &working : &elsewhere,
                             &waiting, &waiting, &leaving, &idle};  // in the order of Activity::Kind
    parts[static_cast<int>(one.activity.kind)]->push_back(&one);
  }
  // Processes whose rank is not known may be those, and so may processes that could not be read.
  const auto is_unread = [](const LookCollector& one) {
    return one.name == kProcesses && one.outcome == LookCollector::Outcome::timed_out;
  };
  const bool unread = std::ranges::any_of(
      looks.looks->hosts, [&](const HostLook& look) { return std::ranges::any_of(look.collectors, is_unread); });
  if (unread || (!snapshot.ranks.empty() && !is_named(snapshot.ranks.back().rank))) {
    gone = {};
  } else if (looks.whole && looks.fits) {
    for (const RankList::Range& range : snapshot.unheard.ranges()) gone.add(range);
  }
}

std::string who_of(const Looked& ranks) { return who(seen_of(ranks)); }

std::string largest_of(const Looked& ranks) {
  if (ranks.empty()) return {};
  const auto groups = grouped(ranks, [](const RankFacts* one) { return one->activity.doing; });
  const auto& most = *std::ranges::max_element(groups, {}, [](const auto& group) { return group.second.size(); });
  return fmt::format("; {}: {}", counted(most.second.size(), "rank"), most.first);
}

Symptom about(Verdict verdict, const Looked& ranks) {
  Symptom symptom{verdict};
  symptom.blame(seen_of(ranks));
  if (!ranks.empty()) symptom.sentence = fmt::format("{}: {}", who_of(ranks), ranks.front()->activity.doing);
  return symptom;
}

std::optional<Symptom> find_gone_ranks(const LookedJob& job) {
  if (job.gone.empty() || job.joining.size() == job.all.size()) return std::nullopt;
  Symptom symptom{Verdict::process_dead};
  blame_gone(job, symptom);
  symptom.sentence = fmt::format("no process of {} is left", rank_words(job.gone));
  if (!symptom.hosts.empty()) symptom.sentence += fmt::format(" on {}", fmt::join(symptom.hosts, ", "));
  std::size_t launchers = 0;
  for (const HostEvidence* host : job.snapshot.reached) {
    for (const Trouble& trouble : host->troubles) {
      if (!symptom.hosts.contains(host->host) || trouble.text.find("lack of memory") == std::string::npos) continue;
      if (symptom.evidence.empty()) symptom.sentence += "; killed for lack of memory (RESOURCE)";
      symptom.evidence.push_back(fmt::format("{}: {}", host->host, trouble.text));
    }
  }
  for (const HostLook& look : job.looks.looks->hosts) {
    launchers +=
        static_cast<std::size_t>(std::ranges::count(look.processes, LookProcess::Role::launcher, &LookProcess::role));
  }
  symptom.sentence += largest_of(job.waiting);
  if (launchers > 0)
    symptom.evidence.push_back(fmt::format("{} still run: they saw nobody fail", counted(launchers, "launcher")));
  add_doubt(job, symptom);
  return symptom;
}

std::optional<Symptom> find_old_generation(const LookedJob& job) {
  int newest = -1;
  for (const RankFacts* one : job.all) newest = std::max(newest, one->process->restarts);
  const Looked old = those_of(
      job.all, [&](const RankFacts& one) { return one.process->restarts >= 0 && one.process->restarts < newest; });
  if (old.empty()) return std::nullopt;
  Symptom symptom = about(Verdict::rank_lagging, old);
  symptom.sentence += fmt::format("; of an old generation (restart {}), while the others are at restart {} and wait",
                                  old.front()->process->restarts, newest);
  return symptom;
}

std::optional<Symptom> find_unjoined(const LookedJob& job) {
  // Ranks wait to join a group at any time; only at the start nobody is further.
  if (job.joining.empty() || !job.waiting.empty() || !job.leaving.empty()) return std::nullopt;
  const std::string usual = usual_master(job.joining);
  const auto is_lost = [&](const RankFacts& one) {
    return !dead_address(one).empty() || (!usual.empty() && one.process->master != usual);
  };
  const Looked lost = those_of(job.joining, is_lost);
  const Looked& absent = lost.empty() ? job.elsewhere : lost;
  if (absent.empty() && job.gone.empty()) return std::nullopt;
  Symptom symptom = about(Verdict::init_not_joined, absent);
  if (!lost.empty()) {
    const std::string dead = dead_address(*lost.front());
    symptom.sentence += fmt::format("; it tries to meet at {}, {} (CONFIG: MASTER_ADDR or MASTER_PORT, or a firewall)",
                                    dead.empty() ? lost.front()->process->master : dead,
                                    dead.empty() ? "the others elsewhere" : "where nobody answers");
    for (const RankFacts* one : job.joining) {
      if (!one->process->master.empty())
        add_once(symptom.evidence, fmt::format("{}: ranks are to meet at {}", one->host->host, one->process->master));
    }
  } else if (!job.gone.empty()) {
    blame_gone(job, symptom);
    add_doubt(job, symptom);
    symptom.sentence += fmt::format("{}{} {} never launched: all hosts were reached", absent.empty() ? "" : "; ",
                                    rank_words(job.gone), are(job.gone.size()) == "is" ? "was" : "were");
  }
  symptom.sentence += largest_of(those_of(job.joining, [&](const RankFacts& one) { return !is_lost(one); }));
  return symptom;
}

std::optional<Symptom> find_unseen_hosts(const LookedJob& job) {
  if (job.looks.whole || !job.elsewhere.empty()) return std::nullopt;
  const std::size_t seen = job.looks.looks->hosts.size();
  const std::size_t expected = static_cast<std::size_t>(std::max(0, job.looks.looks->expected_hosts));
  const std::size_t unseen = std::max(job.looks.looks->silent.size(), expected - std::min(expected, seen));
  Symptom symptom;
  const std::string who = unseen == 0   ? "not all hosts of the job were"
                          : unseen == 1 ? "a host was not"
                                        : fmt::format("{} hosts were not", unseen);
  symptom.sentence =
      fmt::format("{} looked at: a rank there may be the late one{}{}", who,
                  largest_of(job.waiting.empty() ? job.joining : job.waiting), unheard_words(job.snapshot));
  return symptom;
}

std::optional<Symptom> find_stuck_start(const LookedJob& job) {
  const Looked compiling = those_of(job.elsewhere, [](const RankFacts& one) { return one.activity.id == "autotune"; });
  const std::size_t all = job.all.size();
  if (!job.looks.whole || all == 0 || (job.joining.size() != all && compiling.size() != all)) return std::nullopt;
  Symptom symptom{Verdict::init_stuck};
  symptom.sentence = compiling.empty()
                         ? fmt::format("all {} are in the initialization", counted(all, "rank"))
                         : fmt::format(
                               "all {} compile, use no CPU time and wait for each other: their programs differ "
                               "between processes",
                               counted(all, "rank"));
  symptom.sentence += largest_of(job.all);
  return symptom;
}

std::optional<Symptom> find_in_logs_of_looks(const LookedJob& job) {
  if (!job.looks.logged) return std::nullopt;
  const Diagnosis& logged = *job.looks.logged;
  // Logs are the past: only a cause that processes cannot show counts, and only for a rank that is no longer there.
  const bool is_cause = logged.verdict == Verdict::resource || logged.verdict == Verdict::config;
  const bool is_end = logged.verdict == Verdict::process_dead && !logged.ranks.empty();
  const auto lives = [&](int rank) { return job.snapshot.find(rank) != nullptr; };
  if ((!is_cause && !is_end) || std::ranges::any_of(logged.ranks, lives)) return std::nullopt;
  Symptom symptom{logged.verdict, "by the logs: " + logged.sentence};
  symptom.ranks = {logged.ranks.begin(), logged.ranks.end()};
  symptom.hosts = {logged.hosts.begin(), logged.hosts.end()};
  symptom.evidence = logged.evidence;
  return symptom;
}

}  // namespace busbar
