#include "common/base/enum_words.h"
#include "common/base/lists.h"
#include "common/evidence/job_snapshot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>

namespace busbar {
namespace {

using Result = PeerProbe::Result;
using Condition = SeenRank::Condition;

using Pair = std::pair<std::string, std::string>;  ///< from, to
using HostsByMtu = std::map<int, std::vector<std::string>>;

HostsByMtu hosts_by_mtu(const JobSnapshot& snapshot) {
  HostsByMtu hosts;
  for (const HostEvidence* host : snapshot.reached)
    if (host->mtu > 0) hosts[host->mtu].push_back(host->host);
  return hosts;
}

/// The hosts whose MTU differs from that of the majority; none if there is no majority.
std::set<std::string> hosts_of_unlike_mtu(const JobSnapshot& snapshot) {
  const HostsByMtu hosts = hosts_by_mtu(snapshot);
  std::size_t total = 0;
  for (const auto& [mtu, names] : hosts) total += names.size();
  const auto is_usual = [&](const auto& one) { return 2 * one.second.size() > total; };
  std::set<std::string> unlike;
  if (std::ranges::none_of(hosts, is_usual)) return unlike;
  for (const auto& one : hosts)
    if (!is_usual(one)) unlike.insert(one.second.begin(), one.second.end());
  return unlike;
}

constexpr std::array<std::string_view, 5> kProbeResults{"reached", "connection refused", "no route", "no answer",
                                                        "small messages pass, 32 KiB do not"};
static_assert(kProbeResults.size() == static_cast<std::size_t>(Result::large_lost) + 1);
std::string_view words(Result result) { return word(kProbeResults, result); }

/// "node3 (ranks 12-15)".
std::string host_and_ranks(const JobSnapshot& snapshot, const std::string& host) {
  const std::set<int> ranks = ranks_on(snapshot, {host});
  return ranks.empty() ? host : fmt::format("{} ({})", host, rank_words(RankList(ranks)));
}

/// The process that was asked may be the one that cannot answer: then silence proves nothing about the network.
bool may_be_unresponsive(const JobSnapshot& snapshot, const std::string& host) {
  constexpr double kStarved = 3;
  return std::ranges::any_of(snapshot.ranks, [&](const SeenRank& seen) {
    return seen.host->host == host && (seen.condition != Condition::running || seen.flight->heartbeat_age_s > kStarved);
  });
}

std::map<Pair, PeerProbe> probes(const JobSnapshot& snapshot) {
  std::map<Pair, PeerProbe> all;
  for (const HostEvidence* host : snapshot.reached)
    for (const PeerProbe& probe : host->probes) all[{host->host, probe.host}] = probe;
  return all;
}

/// The collector had a connection to every host whose evidence it has: only its own process was busy, then.
bool asked_by(const JobSnapshot& snapshot, const std::string& host) { return snapshot.evidence->reporter_host == host; }

/// A host that was not reached, and that answers all who probed it, but with small messages only.
bool loses_large(const JobSnapshot& snapshot, const std::map<Pair, PeerProbe>& all, const std::string& host) {
  const auto to_it = [&](const auto& one) { return one.first.second == host; };
  const auto is_lost = [](const auto& one) { return one.second.result == Result::large_lost; };
  return std::ranges::any_of(snapshot.unreached, [&](const HostEvidence* h) { return h->host == host; }) &&
         std::ranges::any_of(all, to_it) &&
         std::ranges::all_of(all, [&](const auto& one) { return !to_it(one) || is_lost(one); });
}

/// Between hosts that both answered the collector, a slow probe proves nothing: busy cores cause many. The kernel's
/// state of the job's own connections proves something, and so does "no route". TCP needs both directions: if one host
/// has just connected to the other, silence in the other direction is a busy process.
bool is_failure(const JobSnapshot& snapshot, const std::map<Pair, PeerProbe>& all, const Pair& pair,
                const PeerProbe& probe) {
  if (probe.result == Result::ok || probe.result == Result::refused) return false;
  if (probe.result == Result::no_route) return true;
  // Its evidence, which is large, does not arrive either, nor what its kernel knows.
  if (probe.result == Result::large_lost && loses_large(snapshot, all, pair.second)) return true;
  const auto back = all.find({pair.second, pair.first});
  const bool stalled = probe.stalled || (back != all.end() && back->second.stalled);
  if (!stalled || probe.result == Result::large_lost) return stalled;
  if (asked_by(snapshot, pair.second) || may_be_unresponsive(snapshot, pair.second)) return false;
  return back == all.end() || back->second.result != Result::ok;
}

using CutFrom = std::map<std::string, std::set<std::string>>;

/// From which others each host is cut off.
CutFrom cut_from(const std::vector<Pair>& failing) {
  CutFrom others;
  for (const auto& [from, to] : failing) {
    others[from].insert(to);
    others[to].insert(from);
  }
  return others;
}

/// The host that is in all failing pairs, if there is one.
std::optional<std::string> common_host(const std::vector<Pair>& failing) {
  for (const auto& [host, partners] : cut_from(failing)) {
    const std::string& name = host;  // a structured binding cannot be captured in C++20's lambdas of g++ 12
    const bool in_all =
        std::ranges::all_of(failing, [&](const Pair& pair) { return pair.first == name || pair.second == name; });
    if (in_all && partners.size() >= 2) return host;
  }
  return std::nullopt;
}

/// The two sides of a network that is parted: no host of one reaches any of the other. Empty if the pairs are no such
/// thing, or one side is a single host.
std::pair<std::vector<std::string>, std::vector<std::string>> sides_of(const std::vector<Pair>& failing) {
  const CutFrom cut = cut_from(failing);
  const std::set<std::string>& other = cut.begin()->second;
  const std::set<std::string>& one = cut.at(*other.begin());
  const bool all_cut = std::ranges::all_of(cut, [&](const auto& host) {
    return host.second == (one.contains(host.first) ? other : one) &&
           one.contains(host.first) != other.contains(host.first);
  });
  if (!all_cut || one.size() < 2 || other.size() < 2) return {};
  return {{one.begin(), one.end()}, {other.begin(), other.end()}};
}

/// Blames hosts with a different MTU; else the host in all pairs; else both ends of one pair.
Symptom about_mtu(const JobSnapshot& snapshot, const std::vector<Pair>& lost) {
  Symptom symptom{Verdict::host_unreachable};
  symptom.about_mtu = true;
  const std::set<std::string> unlike = hosts_of_unlike_mtu(snapshot);
  for (const auto& [from, to] : lost) {
    for (const std::string& host : {from, to})
      if (unlike.contains(host)) symptom.hosts.insert(host);
  }
  if (const auto common = common_host(lost); symptom.hosts.empty() && common) symptom.hosts.insert(*common);
  const std::string between = symptom.hosts.empty()
                                  ? fmt::format("{} and {}", lost.front().first, lost.front().second)
                                  : fmt::format("{} and the other hosts", fmt::join(symptom.hosts, ", "));
  if (symptom.hosts.empty()) symptom.hosts = {lost.front().first, lost.front().second};
  symptom.sentence = "small messages pass, 32 KiB do not: the MTU differs on the way between " + between;
  if (const std::string mtus = mtu_words(snapshot); !mtus.empty()) symptom.sentence += "; " + mtus;
  return symptom;
}

/// Large messages of this host that no third host gets or sends either; empty if one does.
std::vector<Pair> lost_with_third(const std::map<Pair, PeerProbe>& all, const std::string& end,
                                  const std::string& other) {
  std::vector<Pair> pairs;
  for (const auto& [pair, probe] : all) {
    if ((pair.first != end || pair.second == other) && (pair.second != end || pair.first == other)) continue;
    if (probe.result == Result::ok) return {};
    if (probe.result == Result::large_lost) pairs.push_back(pair);
  }
  return pairs;
}

/// Of one pair whose data stall, third hosts show which end is at fault, though their own data do not stall.
void add_third_hosts(const std::map<Pair, PeerProbe>& all, std::vector<Pair>& lost) {
  const Pair pair = lost.front();
  if (!std::ranges::all_of(lost, [&](const Pair& p) { return p == pair || p == Pair{pair.second, pair.first}; }))
    return;
  const std::vector<Pair> of_first = lost_with_third(all, pair.first, pair.second);
  const std::vector<Pair> of_second = lost_with_third(all, pair.second, pair.first);
  if (of_first.empty() == of_second.empty()) return;
  lost.insert(lost.end(), of_first.begin(), of_first.end());
  lost.insert(lost.end(), of_second.begin(), of_second.end());
}

/// A host that was reached in the end, after another way to it failed.
bool is_doubted(const JobSnapshot& snapshot, const std::string& host) {
  return std::ranges::any_of(snapshot.reached,
                             [&](const HostEvidence* one) { return one->host == host && !one->why_not.empty(); });
}

/// Host pairs in which one does not reach the other over the watchdog's own connections.
std::optional<Symptom> find_cut_pairs(const JobSnapshot& snapshot) {
  const std::map<Pair, PeerProbe> all = probes(snapshot);
  std::vector<Pair> lost, cut;
  for (const auto& [pair, probe] : all) {
    if (!is_failure(snapshot, all, pair, probe)) continue;
    (probe.result == Result::large_lost ? lost : cut).push_back(pair);
  }
  if (lost.empty() && cut.empty()) return std::nullopt;
  if (cut.empty()) add_third_hosts(all, lost);
  Symptom symptom;
  const std::vector<Pair>& failing = cut.empty() ? lost : cut;
  if (cut.empty()) {
    symptom = about_mtu(snapshot, lost);
  } else if (const auto common = common_host(cut)) {
    symptom.hosts.insert(*common);
    symptom.sentence = fmt::format("{} and the other hosts do not reach each other", host_and_ranks(snapshot, *common));
  } else if (const auto [one, other] = sides_of(cut); !one.empty()) {
    symptom.hosts = {one.begin(), one.end()};
    symptom.hosts.insert(other.begin(), other.end());
    symptom.sentence =
        fmt::format("the network is parted: {} and {} do not reach each other", few_hosts(one), few_hosts(other));
  } else {
    const auto& [from, to] = cut.front();
    const auto back = all.find({to, from});
    const bool first = is_doubted(snapshot, from), second = is_doubted(snapshot, to);
    const bool one_way = back != all.end() && back->second.result == Result::ok;
    symptom.hosts = {from, to};
    symptom.sentence =
        one_way ? fmt::format("{} does not reach {} ({}), although {} reaches {}", from, to,
                              words(all.at(cut.front()).result), to, from)
                : fmt::format("{} and {} do not reach each other ({})", from, to, words(all.at(cut.front()).result));
    std::set<std::string> third;
    for (const auto& [pair, probe] : all) {
      const bool reaches_one = pair.second == from || pair.second == to;
      if (reaches_one && probe.result == Result::ok && pair.first != from && pair.first != to) third.insert(pair.first);
    }
    if (!third.empty()) symptom.sentence += fmt::format(", while {} reaches them", *third.begin());
    if (first != second) {
      symptom.hosts = {first ? from : to};
      symptom.sentence += fmt::format("; the scheduler does not reach {} either", first ? from : to);
    }
  }
  symptom.verdict = Verdict::host_unreachable;
  for (const auto& pair : failing)
    symptom.evidence.push_back(fmt::format("{} -> {}: {}", pair.first, pair.second, words(all.at(pair).result)));
  return symptom;
}

/// Seconds since any rank that was heard from advanced; infinity if none was.
double still_s(const JobSnapshot& snapshot) {
  double least = std::numeric_limits<double>::infinity();
  for (const SeenRank* seen : not_at_their_end(snapshot)) least = std::min(least, seen->flight->idle_s);
  return least;
}

/// A host that refuses connections is there, unless the job's own data do not reach it either. When a job is ended,
/// there are 0.3 s to ask, and a busy host may miss them. Then its silence counts only if the job had stood still, for
/// longer if its network is known to work. A launcher that misses a host has waited for seconds.
std::vector<const HostEvidence*> silent_hosts(const JobSnapshot& snapshot, bool unresponsive) {
  constexpr double kStill = 2, kStuck = 10;
  const bool in_haste = snapshot.evidence->occasion == HangEvidence::Occasion::terminated;
  const double still = in_haste ? still_s(snapshot) : std::numeric_limits<double>::infinity();
  std::vector<const HostEvidence*> silent;
  for (const HostEvidence* host : snapshot.unreached) {
    const bool there =
        std::ranges::find(snapshot.walled, host) != snapshot.walled.end() ||
        loses_large(snapshot, probes(snapshot), host->host) ||
        (host->silence == Silence::refused && links_to(*snapshot.evidence, host->host) != JobLink::State::stalled);
    if (is_unresponsive(*host) == unresponsive && !there && still >= (unresponsive ? kStuck : kStill))
      silent.push_back(host);
  }
  return silent;
}

Symptom about_silent(const JobSnapshot& snapshot, const std::vector<const HostEvidence*>& silent) {
  Symptom symptom{Verdict::host_unreachable};
  const auto reason = [](const HostEvidence* host) {
    return host->why_not.empty() ? "nothing came back" : host->why_not;
  };
  symptom.evidence = mapped(silent, [&](auto* host) { return fmt::format("{}: {}", host->host, reason(host)); });
  const std::vector<std::string> names = mapped(silent, &HostEvidence::host);
  const std::string reporter = snapshot.reached.front()->host;
  const bool has_network = std::ranges::any_of(snapshot.unreached, [&](const HostEvidence* h) {
    return is_unresponsive(*h) || is_walled(*snapshot.evidence, *h);
  });
  // Looks come from outside: none of the job's hosts asks.
  const bool inside = snapshot.evidence->occasion != HangEvidence::Occasion::looks;
  if (inside && snapshot.reached.size() == 1 && names.size() >= 2 && !has_network) {
    symptom.hosts.insert(reporter);
    symptom.sentence = fmt::format("{} reaches none of the {} other hosts: it is cut off, or all of them are",
                                   host_and_ranks(snapshot, reporter), names.size());
    return symptom;
  }
  symptom.hosts.insert(names.begin(), names.end());
  if (names.size() == 1) {
    const bool unresponsive = is_unresponsive(*silent.front());
    symptom.sentence =
        fmt::format("host {} {}: {}", host_and_ranks(snapshot, names.front()),
                    unresponsive ? "does not answer" : "is dead, cut off or paused", reason(silent.front()));
    if (unresponsive) symptom.sentence += "; its network works, its processes are stopped or get no CPU";
  } else {
    constexpr std::size_t kFew = 4;
    const auto some = std::span(names).first(std::min(kFew, names.size()));
    symptom.sentence = fmt::format("{} of {} hosts {}: {}{}", names.size(), snapshot.evidence->hosts.size(),
                                   is_unresponsive(*silent.front()) ? "do not answer" : "are dead, cut off or paused",
                                   fmt::join(some, ", "), names.size() > kFew ? ", ..." : "");
  }
  symptom.ranks = ranks_on(snapshot, symptom.hosts);
  symptom.sentence += waiting(snapshot, symptom.ranks, symptom.hosts.size() == 1 ? "it" : "them");
  for (const auto& [pair, probe] : probes(snapshot)) {
    if (probe.result == Result::ok || !symptom.hosts.contains(pair.second)) continue;
    symptom.evidence.push_back(fmt::format("{} -> {}: {}", pair.first, pair.second, words(probe.result)));
  }
  return symptom;
}

/// The host that asks is as likely cut off as all the others, and more likely than any one of them.
Symptom about_refused_by_all(const JobSnapshot& snapshot) {
  Symptom symptom{Verdict::host_unreachable};
  const std::string& reporter = snapshot.reached.front()->host;
  symptom.hosts.insert(reporter);
  symptom.sentence =
      fmt::format("{} is refused by all {} other hosts, and the job's connections to them are closed: it is cut off",
                  host_and_ranks(snapshot, reporter), snapshot.unreached.size());
  for (const HostEvidence* host : snapshot.unreached)
    symptom.evidence.push_back(fmt::format("{}: {}", host->host, host->why_not));
  return symptom;
}

}  // namespace

std::vector<std::string> doubtful_pairs(const HangEvidence& evidence) {
  const JobSnapshot snapshot = make_snapshot(evidence);
  const std::map<Pair, PeerProbe> all = probes(snapshot);
  std::vector<std::string> lines;
  for (const auto& [pair, probe] : all) {
    const auto back = all.find({pair.second, pair.first});
    const bool mutual = back != all.end() && back->second.result == Result::timed_out;
    if (probe.result != Result::timed_out || !mutual || is_failure(snapshot, all, pair, probe)) continue;
    if (may_be_unresponsive(snapshot, pair.first) || may_be_unresponsive(snapshot, pair.second)) continue;
    lines.push_back(fmt::format("{} -> {}: {} between the watchers", pair.first, pair.second, words(probe.result)));
  }
  return lines;
}

std::optional<JobLink::State> links_to(const HangEvidence& evidence, const std::string& host) {
  std::optional<JobLink::State> all;
  constexpr int kWeight[] = {1, 2, 0};  // of standing, stalled, closed
  const auto weight = [&](JobLink::State state) { return kWeight[static_cast<int>(state)]; };
  for (const HostEvidence& from : evidence.hosts) {
    for (const JobLink& link : from.links)
      if (link.host == host && (!all || weight(link.state) > weight(*all))) all = link.state;
  }
  return all;
}

bool is_walled(const HangEvidence& evidence, const HostEvidence& host) {
  const bool silent =
      host.silence == Silence::refused || host.silence == Silence::no_route || host.silence == Silence::no_answer;
  return !host.reached && host.ever_reached && silent && links_to(evidence, host.host) == JobLink::State::standing;
}

bool is_refused_by_all(const JobSnapshot& snapshot) {
  const bool ended = snapshot.evidence->occasion == HangEvidence::Occasion::terminated;
  return !ended && snapshot.reached.size() == 1 && snapshot.unreached.size() >= 2 && snapshot.never_reached.empty() &&
         std::ranges::all_of(snapshot.unreached, [&](const HostEvidence* host) {
           return host->silence == Silence::refused &&
                  links_to(*snapshot.evidence, host->host) == JobLink::State::closed;
         });
}

std::string mtu_words(const JobSnapshot& snapshot) {
  const HostsByMtu hosts = hosts_by_mtu(snapshot);
  if (hosts.size() < 2) return {};
  std::vector<std::string> parts;
  for (const auto& [mtu, names] : hosts) parts.push_back(fmt::format("{} bytes on {}", mtu, few_hosts(names)));
  return fmt::format("the MTU is {}", fmt::join(parts, ", "));
}

std::optional<Symptom> find_hardware_fault(const JobSnapshot& snapshot) {
  Symptom symptom{Verdict::hw_fault};
  symptom.blame(snapshot, Trouble::Kind::hardware);
  if (symptom.evidence.empty()) return std::nullopt;
  const auto is_there = [&](const SeenRank& seen) { return symptom.hosts.contains(seen.host->host); };
  if (symptom.hosts.size() == 1) symptom.blame(those(snapshot, is_there));
  symptom.sentence = symptom.evidence.front();
  if (symptom.evidence.size() > 1) symptom.sentence += fmt::format(" (and {} more)", symptom.evidence.size() - 1);
  symptom.sentence += waiting(snapshot, {}, "");
  return symptom;
}

std::optional<Symptom> find_unreachable(const JobSnapshot& snapshot) {
  if (snapshot.reached.empty()) return std::nullopt;
  if (is_refused_by_all(snapshot)) return about_refused_by_all(snapshot);
  const std::vector<const HostEvidence*> silent = silent_hosts(snapshot, false);
  return silent.empty() ? find_cut_pairs(snapshot) : about_silent(snapshot, silent);
}

std::string walled_words(const JobSnapshot& snapshot) {
  std::map<std::string, std::vector<std::string>> hosts;  // by what is reported for them
  for (const HostEvidence* host : snapshot.walled) {
    const std::string_view how = host->silence == Silence::refused ? "refuse" : "do not answer";
    hosts[links_to(*snapshot.evidence, host->host)
              ? fmt::format("{}; the job's connections are open: a firewall?", how)
              : fmt::format("{}; no connection of the job shows whether its processes live", how)]
        .push_back(host->host);
  }
  std::vector<std::string> parts;
  for (const auto& [said, names] : hosts) parts.push_back(fmt::format("the watchers of {} {}", few_hosts(names), said));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::optional<Symptom> find_walled(const JobSnapshot& snapshot) {
  // Progress, mismatched calls and lagging ranks show without them. But a rank that lags in a broadcast may wait for
  // its root.
  if (snapshot.walled.empty() || find_call_mismatch(snapshot) || find_slow(snapshot)) return std::nullopt;
  const auto is_rooted = [](const SeenRank& seen) { return inside(*seen.flight) && !synchronizes(*seen.flight); };
  if (std::ranges::none_of(snapshot.ranks, is_rooted) && find_lagging(snapshot)) return std::nullopt;
  return Symptom{.sentence = walled_words(snapshot) + unheard_words(snapshot) + waiting(snapshot, {}, "")};
}

std::optional<Symptom> find_never_reached(const JobSnapshot& snapshot) {
  // Progress and mismatched calls are certain whatever the others do.
  if (snapshot.never_reached.empty() || find_call_mismatch(snapshot) || find_slow(snapshot)) return std::nullopt;
  const std::string here =
      snapshot.reached.size() == 1 ? snapshot.reached.front()->host : fmt::format("{} hosts", snapshot.reached.size());
  return Symptom{.sentence = fmt::format("the watchers of {} have never reached {}, where the cause may be{}{}", here,
                                         few_hosts(mapped(snapshot.never_reached, &HostEvidence::host)),
                                         unheard_words(snapshot), waiting(snapshot, {}, ""))};
}

std::optional<Symptom> find_unresponsive(const JobSnapshot& snapshot) {
  if (snapshot.reached.empty() || !silent_hosts(snapshot, false).empty()) return std::nullopt;
  const std::vector<const HostEvidence*> silent = silent_hosts(snapshot, true);
  return silent.empty() ? std::nullopt : std::optional(about_silent(snapshot, silent));
}

}  // namespace busbar
