#include "common/watch/collector.h"

#include "common/base/enum_words.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/watch/limits.h"
#include "common/watch/peer_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

namespace busbar {
namespace {

using std::chrono::milliseconds;

/// One host and the process on it that is asked next.
struct Asked {
  std::size_t host;
  int rank;
};

struct Collected {
  std::size_t own = 0;  ///< this process's host
  std::vector<HostEvidence> hosts;
  std::vector<int> contact;       ///< for each host: the rank that answered last, at first its lowest
  std::vector<bool> passed_over;  ///< hosts that are not asked
};

Silence silence_of(const PeerReply& reply) {
  if (reply.connected) return Silence::unresponsive;
  if (reply.result == PeerProbe::Result::ok) return Silence::unreadable;
  if (reply.result == PeerProbe::Result::refused) return Silence::refused;
  return reply.result == PeerProbe::Result::no_route ? Silence::no_route : Silence::no_answer;
}

constexpr std::array<std::string_view, 6> kSilenceReasons{"no answer",          "connected, but no answer",
                                                          "connection refused", "no route",
                                                          "no answer",          "an answer that cannot be read"};
static_assert(kSilenceReasons.size() == static_cast<std::size_t>(Silence::unreadable) + 1);

/// Asks those processes and notes their answers. A host that answered is not asked again.
void ask(const JobView& view, const std::vector<Asked>& asked, milliseconds limit, Collected& all) {
  if (asked.empty()) return;
  const std::vector<PeerAddress> peers = mapped(asked, [&](const Asked& a) { return view.peers[a.rank]; });
  const std::vector<PeerReply> replies = ask_peers(peers, view.token, kAskEvidence, limit);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    HostEvidence& host = all.hosts[asked[i].host];
    try {
      if (replies[i].result == PeerProbe::Result::ok) {
        host = decode_host(replies[i].text);
        host.reached = true;
        host.why_not.clear();
        host.silence = Silence::none;
        all.contact[asked[i].host] = asked[i].rank;
        continue;
      }
    } catch (const Error&) {
      // reported below, as any other reason
    }
    // One unresponsive process proves more than others that are gone, or a later silence.
    if (host.reached || is_unresponsive(host)) continue;
    host.silence = silence_of(replies[i]);
    host.why_not =
        fmt::format("{} from rank {} at {}", word(kSilenceReasons, host.silence), asked[i].rank, peers[i].ip);
  }
}

/// Asks the contact of every other host, then all ranks of the hosts that did not answer. If a host did not answer the
/// last time, all its ranks are asked at once.
void ask_hosts(const JobView& view, Collected& all, milliseconds limit) {
  constexpr std::size_t kMostPerHost = 16;
  std::vector<Asked> first, others;
  for (std::size_t h = 0; h < view.hosts.size(); ++h) {
    if (h == all.own || all.passed_over[h]) continue;
    first.push_back({h, all.contact[h]});
    const bool was_silent = all.hosts[h].silence != Silence::none;
    for (std::size_t i = 0; i < std::min(view.hosts[h].size(), kMostPerHost); ++i)
      if (view.hosts[h][i] != all.contact[h]) (was_silent ? first : others).push_back({h, view.hosts[h][i]});
  }
  ask(view, first, limit, all);
  std::erase_if(others, [&](const Asked& a) { return all.hosts[a.host].reached; });
  ask(view, others, limit, all);
}

}  // namespace

HangEvidence collect(const JobView& view, HostObserver& own, bool quick, milliseconds limit) {
  HangEvidence evidence;
  evidence.jobid = view.jobid;
  evidence.nprocs = view.nprocs;
  evidence.host_of_rank = view.host_of_rank();
  evidence.reporter = fmt::format("rank {} on {}", view.rank, view.host);
  evidence.reporter_host = view.host;
  Collected all;
  all.own = static_cast<std::size_t>(view.hosts.empty() ? 0 : view.host_index());
  all.hosts.resize(std::max<std::size_t>(view.hosts.size(), 1));
  for (const std::vector<int>& ranks : view.hosts) {
    all.hosts[all.contact.size()].host = view.peers[ranks.front()].host;
    all.contact.push_back(ranks.front());
  }
  const std::vector<bool> met = hosts_reached_at_start(view);
  for (const bool one : met) all.passed_over.push_back(quick && !one);
  if (quick) {
    ask_hosts(view, all, limit);
  } else {
    const auto begun = std::chrono::steady_clock::now();
    own.look_closely(view);
    ask_hosts(view, all, milliseconds(1500));
    // Until the hosts have examined themselves and each other: a lost probe takes all of its limit. A host that was
    // slow to answer began late.
    const auto asked = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begun);
    std::this_thread::sleep_for(std::max(kProbeLimit + milliseconds(300) - asked, milliseconds(1200)));
    ask_hosts(view, all, milliseconds(1200));
  }
  all.hosts[all.own] = own.evidence(view);
  for (std::size_t h = 0; h < met.size(); ++h) all.hosts[h].ever_reached = met[h] || all.hosts[h].reached;
  evidence.hosts = std::move(all.hosts);
  return evidence;
}

std::vector<PeerAddress> those_before(const JobView& view) {
  constexpr int kFew = 8;
  const std::vector<bool> met = hosts_reached_at_start(view);
  const int own = view.hosts.empty() ? 0 : view.host_index();  // empty before the addresses are exchanged
  std::vector<PeerAddress> peers;
  const auto add = [&](int host, std::size_t most) {
    if (!met[host]) return;
    const std::vector<int>& ranks = view.hosts[host];
    for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i) peers.push_back(view.peers[ranks[i]]);
  };
  if (own <= kFew) {
    for (int host = 0; host < own; ++host) add(host, 4);
    return peers;
  }
  add(0, 2);
  for (int distance = 1; distance < own; distance *= 2) add(own - distance, 1);
  return peers;
}

std::optional<std::string> alarm_others(const JobView& view, int reporter) {
  const std::vector<PeerAddress> peers = reporter != view.rank ? std::vector{view.peers[reporter]} : those_before(view);
  for (const PeerReply& reply : ask_peers(peers, view.token, kAlarm, milliseconds(1500)))
    if (reply.result == PeerProbe::Result::ok) return reply.text;
  return std::nullopt;
}

double lone_report_delay_s(const JobView& view, std::span<const RankEvidence> local) {
  const bool has_culprit = std::ranges::any_of(
      local, [](const RankEvidence& rank) { return rank.flight.ending == Ending::none && !can_move(rank); });
  if (has_culprit || view.nprocs <= view.local_size) return 0;
  return view.host_index() == 0 ? 3 : 8;
}

bool another_host_reports(const JobView& view, milliseconds limit) {
  if (!can_be_asked(view)) return false;
  const std::vector<PeerReply> replies = ask_peers(those_before(view), view.token, kPing, limit);
  return std::ranges::any_of(replies, [](const PeerReply& reply) { return reply.result == PeerProbe::Result::ok; });
}

bool reports_for_job(const JobView& view, const HangEvidence& evidence) {
  if (view.hosts.size() <= 1 || (!view.failed_connections.empty() && view.host_index() == 0)) return true;
  // If a host's system still takes connections, it is in no other part of the network; only its processes are silent.
  // The same holds if the job's own connections to it are open. But that host would say the same of us, so the first
  // host speaks.
  const bool first = view.host_index() == 0;
  const auto is_ours = [&](const HostEvidence& host) {
    return host.reached || is_unresponsive(host) || (first && is_walled(evidence, host));
  };
  const auto ours = static_cast<std::size_t>(std::ranges::count_if(evidence.hosts, is_ours));
  return 2 * ours > view.hosts.size() || (2 * ours == view.hosts.size() && is_ours(evidence.hosts.front()));
}

void notify_others(const JobView& view, std::string_view what) {
  const std::vector<bool> met = hosts_reached_at_start(view);
  std::vector<PeerAddress> others;
  for (std::size_t h = 0; h < view.hosts.size(); ++h) {
    for (const int rank : view.hosts[h])
      if (met[h] && rank != view.rank) others.push_back(view.peers[rank]);
  }
  if (!others.empty()) (void)ask_peers(others, view.token, what, milliseconds(500));
}

}  // namespace busbar
