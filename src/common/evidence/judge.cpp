#include "common/base/enum_words.h"
#include "common/base/lists.h"
#include "common/base/units.h"
#include "common/evidence/hang_evidence.h"
#include "common/evidence/job_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

namespace busbar {
namespace {

using Condition = SeenRank::Condition;
using Key = std::tuple<bool, Condition, Advance, Phase, std::string, std::uint64_t, std::string>;

constexpr std::array<std::string_view, 5> kEndings{"gone without an error", "ended", "ended after an error",
                                                   "ended by its own watchdog", "ended by a signal"};
static_assert(kEndings.size() == static_cast<std::size_t>(Ending::signalled) + 1);

std::string words(const SeenRank& seen) {
  const FlightState& f = *seen.flight;
  switch (seen.condition) {
    case Condition::running:
      return doing(seen);
    case Condition::stopped:
      if (seen.activity != nullptr) return fmt::format("stopped ({}), was: {}", seen.process.state, doing(seen));
      return fmt::format("stopped ({}), last finished #{}", seen.process.state, last_finished(f));
    case Condition::frozen:
      return fmt::format("frozen (state {}), last finished #{}", seen.process.state, last_finished(f));
    case Condition::lost:
    case Condition::ended:
      return fmt::format("{}, was {}", word(kEndings, f.ending), doing(seen));
  }
  return doing(seen);
}

Key key_of(const SeenRank& seen, bool blamed) {
  const FlightState& f = *seen.flight;
  return {
      blamed,     seen.condition, seen.progress, f.phase, f.call ? f.call->collective : "", f.call ? f.call->nbytes : 0,
      words(seen)};
}

/// Splits a range into blamed ranks and others.
void split(RankList::Range range, const std::set<int>& blamed, RankList& innocent, RankList& guilty) {
  for (auto at = blamed.lower_bound(range.first); at != blamed.end() && *at <= range.last; ++at) {
    if (*at > range.first) innocent.add({range.first, *at - 1});
    guilty.add(*at);
    if (*at == range.last) return;
    range.first = *at + 1;
  }
  innocent.add(range);
}

/// The ranks without a record, by reason.
void add_absent(const JobSnapshot& snapshot, const std::set<int>& blamed, std::vector<RankGroup>& groups) {
  const auto add = [&](const RankList& ranks, const char* text) {
    RankGroup innocent{{}, text, false}, guilty{{}, text, true};
    for (const RankList::Range& range : ranks.ranges()) split(range, blamed, innocent.ranks, guilty.ranks);
    for (const RankGroup& group : {innocent, guilty})
      if (!group.ranks.empty()) groups.push_back(group);
  };
  add(snapshot.unheard, "not heard from");
  add(snapshot.recordless, "no record on its host");
}

/// Groups ranks in the same state, the largest group first, blamed groups last.
std::vector<RankGroup> group_ranks(const JobSnapshot& snapshot, const std::set<int>& blamed) {
  std::map<Key, RankGroup> by_key;
  for (const SeenRank& seen : snapshot.ranks) {
    const bool to_blame = blamed.contains(seen.rank);
    by_key.try_emplace(key_of(seen, to_blame), RankGroup{{}, words(seen), to_blame}).first->second.ranks.add(seen.rank);
  }
  std::vector<RankGroup> groups = mapped(by_key, &std::pair<const Key, RankGroup>::second);
  add_absent(snapshot, blamed, groups);
  std::ranges::stable_sort(groups, [](const RankGroup& a, const RankGroup& b) {
    return a.blamed != b.blamed ? b.blamed : a.ranks.size() > b.ranks.size();
  });
  return groups;
}

/// What did not answer.
std::vector<std::string> missing_evidence(const JobSnapshot& snapshot) {
  std::vector<std::string> missing;
  for (const HostEvidence* host : snapshot.unreached) {
    missing.push_back(
        fmt::format("{} was not reached: {}", host->host, host->why_not.empty() ? "no answer" : host->why_not));
  }
  for (const HostEvidence* host : snapshot.never_reached) {
    if (snapshot.evidence->occasion == HangEvidence::Occasion::looks) break;  // the looks say why
    missing.push_back(fmt::format("{} was never reached by the watchers that report this: {}", host->host,
                                  host->why_not.empty() ? "not asked" : host->why_not));
  }
  if (!snapshot.unheard.empty()) missing.push_back(fmt::format("no record of {} came", rank_words(snapshot.unheard)));
  if (!snapshot.recordless.empty()) {
    missing.push_back(fmt::format("no record of {}, although {} answered", rank_words(snapshot.recordless),
                                  snapshot.recordless.size() == 1 ? "its host" : "their hosts"));
  }
  for (const RasEvidence& ras : snapshot.evidence->ras) {
    if (!ras.answered)
      missing.push_back(fmt::format("RAS on {}: {}", ras.host, ras.why_not.empty() ? "no answer" : ras.why_not));
  }
  return missing;
}

/// "all_reduce #412, 64 MiB float sum, timed loop", "agreement".
std::string during(const FlightState& f) {
  if (inside(f)) return fmt::format("{}, {}", operation(*f.call, f.entered), name(f.phase));
  return std::string(name(f.phase));
}

/// Ranks end a second after mpirun, without a signal, if two quick Ctrl-C end it at once.
constexpr std::string_view kWithoutWord = "SIGKILL, or its launcher had gone";

/// [s] without progress that is no hang yet. A rank that fills memory waits for nobody, and gigabytes take their time.
double may_stand_s(const FlightState& f) {
  const bool fills = f.phase == Phase::allocating || f.phase == Phase::preparing;
  return fills ? std::max(kMovedWithin, f.limit_s) : kMovedWithin;
}

/// A job that moved and was ended from outside needs no explanation; one that one of its processes ended does. Records
/// show what they held when they were last written.
std::optional<Symptom> find_ended_from_outside(const JobSnapshot& snapshot) {
  const bool later = snapshot.evidence->occasion == HangEvidence::Occasion::files;
  const auto any = [&](auto is) { return std::ranges::any_of(snapshot.ranks, is); };
  const bool signalled = any([](const SeenRank& seen) { return seen.flight->ending == Ending::signalled; });
  const bool killed = later && !snapshot.ranks.empty() && !any([](const SeenRank& seen) {
                        return seen.condition != Condition::ended || seen.flight->ending != Ending::none;
                      });
  const bool ended = later ? signalled || killed : snapshot.evidence->occasion == HangEvidence::Occasion::terminated;
  if (!ended || died_of_mismatch(snapshot)) return std::nullopt;
  constexpr double kUndoubted = 5;  // [s] in which even a healthy job may not have advanced
  std::size_t moving = 0, running = 0;
  double still_s = std::numeric_limits<double>::infinity();
  Seen first;
  for (const SeenRank& seen : snapshot.ranks) {
    if (seen.flight->ending == Ending::good) continue;
    if (seen.flight->ending == Ending::signalled) first.push_back(&seen);
    ++running;
    const double still = later ? still_at_its_end(*seen.flight) : seen.flight->idle_s;
    if (still < 0 || still >= may_stand_s(*seen.flight)) continue;
    ++moving;
    still_s = std::min(still_s, still);
  }
  if (running > 0 && moving == 0) return std::nullopt;
  Symptom symptom;
  const std::string step = snapshot.ranks.empty() ? "an unknown step" : during(*snapshot.ranks.front().flight);
  const std::string_view heard = snapshot.unheard.empty() ? "" : " heard from";
  symptom.sentence =
      fmt::format("the job was ended from outside ({}) during {}; {}", killed ? kWithoutWord : "SIGTERM", step,
                  running == 0 ? "no rank left a record"
                  : still_s >= kUndoubted
                      ? fmt::format("no rank{} had advanced for {}, too short to tell a slow job from one that hangs",
                                    heard, format_duration(still_s))
                  : moving == running ? fmt::format("all ranks{} were moving", heard)
                                      : fmt::format("{} of {} ranks{} were moving", moving, running, heard));
  symptom.sentence += unheard_words(snapshot);
  // A launcher's signal reaches all within a fraction of a second, a manual `kill` only one.
  if (!first.empty() && 2 * first.size() < running) symptom.sentence += fmt::format("; {} got it first", who(first));
  return symptom;
}

/// Records of processes that cannot be seen from here (other hosts, another pid namespace) and that moved until their
/// last beat. They do not show whether the processes still run or who ended them.
std::optional<Symptom> find_moved_unseen(const JobSnapshot& snapshot) {
  const auto moves = [](const SeenRank& seen) {
    constexpr double kMoving = 5;
    return seen.condition == Condition::running && seen.process.life == ProcessState::Life::unknown &&
           seen.flight->idle_s < kMoving;
  };
  const bool later = snapshot.evidence->occasion == HangEvidence::Occasion::files;
  if (!later || snapshot.ranks.empty() || !std::ranges::all_of(snapshot.ranks, moves)) return std::nullopt;
  return Symptom{.sentence = fmt::format("all ranks{} moved until the last beat of their records, during {}; their "
                                         "processes cannot be seen from here{}",
                                         snapshot.unheard.empty() ? "" : " heard from",
                                         during(*snapshot.ranks.front().flight), unheard_words(snapshot))};
}

bool is_last_resort(Verdict verdict) {
  return verdict == Verdict::slow_not_hung || verdict == Verdict::rank_lagging || verdict == Verdict::stuck_inside ||
         verdict == Verdict::ok;
}

std::optional<Symptom> find_needs_no_cause(const JobSnapshot& snapshot) {
  auto ended = find_ended_from_outside(snapshot);
  return ended ? ended : find_moved_unseen(snapshot);
}

/// The watchdog's checks of its own job.
const std::vector<Check>& own_checks() {
  static const std::vector<Check> checks = {{find_hardware_fault},
                                            {find_unreachable},
                                            {find_dead},
                                            {find_stopped},
                                            {find_unresponsive, Verdict::process_stopped},
                                            {find_resource},
                                            {find_config},
                                            {find_needs_no_cause, Verdict::config},
                                            {find_at_files, Verdict::config},
                                            {find_not_joined},
                                            {find_never_reached, Verdict::init_not_joined},
                                            {find_walled, Verdict::init_not_joined},
                                            {find_init_stuck},
                                            {find_call_mismatch},
                                            {find_slow, Verdict::order_mismatch},
                                            {find_lagging},
                                            {find_stuck_inside}};
  return checks;
}

Symptom nothing_known(const JobSnapshot& snapshot) {
  if (snapshot.ranks.empty() && snapshot.evidence->occasion == HangEvidence::Occasion::looks)
    return {.sentence = "no rank of the job was found"};
  return {.sentence = snapshot.ranks.empty() ? "the evidence shows nothing: no rank's flight record was read"
                                             : "the evidence does not show what holds the job up"};
}

/// The same text on many hosts is one line.
void add_troubles(const JobSnapshot& snapshot, std::vector<std::string>& lines) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> hosts_by_text;
  for (const HostEvidence* host : snapshot.reached) {
    for (const Trouble& trouble : host->troubles) {
      std::vector<std::string>& hosts = hosts_by_text[trouble.text];
      if (hosts.empty()) order.push_back(trouble.text);
      if (hosts.empty() || hosts.back() != host->host) hosts.push_back(host->host);
    }
  }
  for (const std::string& text : order) lines.push_back(fmt::format("{}: {}", few_hosts(hosts_by_text[text]), text));
}

/// In a job that moves, some rank is always the last.
bool stands_still(const JobSnapshot& snapshot, const std::set<int>& ranks) {
  constexpr double kStill = 5;
  return std::ranges::all_of(ranks, [&](int rank) {
    const SeenRank* seen = snapshot.find(rank);
    return seen != nullptr && seen->flight->idle_s >= kStill;
  });
}

/// Other findings and remarkable facts on the hosts: secondary, but they may be the reader's clue.
void add_secondary(const JobSnapshot& snapshot, const std::vector<Symptom>& found, std::vector<std::string>& lines) {
  for (std::size_t i = 1; i < found.size(); ++i) {
    // Symptoms of ranks that only wait for the others, and those that need no explanation any more.
    if (found[i].verdict == Verdict::init_stuck || found[i].verdict == Verdict::unknown) continue;
    const bool slow = found[0].verdict == Verdict::slow_not_hung && found[i].verdict == Verdict::rank_lagging;
    const bool adds = !is_last_resort(found[i].verdict) || (slow && stands_still(snapshot, found[i].ranks));
    if (adds) lines.push_back(fmt::format("also {}: {}", name(found[i].verdict), found[i].sentence));
  }
  const std::string walled = walled_words(snapshot);
  if (!walled.empty() && !found[0].sentence.starts_with(walled)) lines.push_back(walled);
  if (const std::string mtus = mtu_words(snapshot); !mtus.empty()) lines.push_back(mtus);
  for (std::string& line : doubtful_pairs(*snapshot.evidence)) lines.push_back(std::move(line));
  add_troubles(snapshot, lines);
}

/// If all watchers of a host are silent, the host is starved, and none of its processes is to blame.
void add_starved(const JobSnapshot& snapshot, std::vector<std::string>& lines) {
  constexpr double kLate = 10;
  if (snapshot.evidence->occasion == HangEvidence::Occasion::files) return;
  std::map<const HostEvidence*, double> freshest;
  for (const SeenRank& seen : snapshot.ranks) {
    const double age_s = seen.condition == SeenRank::Condition::running ? seen.flight->heartbeat_age_s : 0;
    double& least_s = freshest.try_emplace(seen.host, age_s).first->second;
    least_s = std::min(least_s, age_s);
  }
  for (const auto& [host, age_s] : freshest) {
    if (age_s < kLate) continue;
    lines.push_back(fmt::format("{}: all its watchers have been silent for {}: its processors are starved", host->host,
                                seconds(age_s)));
  }
}

/// By their lowest ranks, as people number them: node2 before node10.
std::vector<std::string> in_order(const JobSnapshot& snapshot, std::set<std::string> hosts) {
  std::vector<std::string> ordered;
  const auto take = [&](const std::string& host) {
    if (hosts.erase(host) > 0) ordered.push_back(host);
  };
  for (const std::string& host : snapshot.evidence->host_of_rank) take(host);
  for (const HostEvidence& host : snapshot.evidence->hosts) take(host.host);
  ordered.insert(ordered.end(), hosts.begin(), hosts.end());
  return ordered;
}

void drop_repeats(std::vector<std::string>& lines) {
  std::set<std::string> seen;
  std::erase_if(lines, [&](const std::string& line) { return !seen.insert(line).second; });
}

}  // namespace

HangFinding judge(const HangEvidence& evidence) { return judge_by(make_snapshot(evidence), own_checks()); }

HangFinding judge_by(const JobSnapshot& snapshot, std::span<const Check> checks) {
  std::vector<Symptom> found;
  for (const Check& check : checks) {
    auto symptom = check.find(snapshot);
    if (!symptom) continue;
    symptom->weighs_after = check.after;
    found.push_back(std::move(*symptom));
  }
  weigh(found);
  if (found.empty()) found.push_back(nothing_known(snapshot));
  const Symptom& symptom = found.front();
  HangFinding finding;
  finding.verdict = symptom.verdict;
  finding.sentence = symptom.sentence;
  finding.ranks.assign(symptom.ranks.begin(), symptom.ranks.end());
  finding.hosts = in_order(snapshot, symptom.hosts);
  finding.evidence = symptom.evidence;
  add_secondary(snapshot, found, finding.evidence);
  add_starved(snapshot, finding.evidence);
  drop_repeats(finding.evidence);
  finding.groups = group_ranks(snapshot, symptom.ranks);
  finding.missing = missing_evidence(snapshot);
  finding.next = next_commands(snapshot, symptom);
  return finding;
}

}  // namespace busbar
