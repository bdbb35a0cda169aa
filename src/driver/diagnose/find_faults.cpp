#include "common/base/lists.h"
#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace busbar {

void blame(const LogView& view, std::span<const std::uint32_t> actors, Finding& finding) {
  std::set<int> ranks(finding.ranks.begin(), finding.ranks.end());
  for (const std::uint32_t actor : actors) {
    const int rank = view.rank_map.rank_of[actor];
    if (rank >= 0 && !view.rank_map.guessed) ranks.insert(rank);
  }
  finding.ranks.assign(ranks.begin(), ranks.end());
  blame_hosts(view, actors, finding);
}

void blame_hosts(const LogView& view, std::span<const std::uint32_t> actors, Finding& finding) {
  std::set<std::string> known(finding.hosts.begin(), finding.hosts.end());
  for (const std::uint32_t actor : actors) {
    const std::string& host = host_of(view.book, actor);
    if (!host.empty() && known.insert(host).second) finding.hosts.push_back(host);
  }
}

std::string voice_of(const LogView& view, const WarningRecord& record) {
  std::vector<std::string> voices;
  if (!record.actors.empty()) voices.push_back(list_actors(view.rank_map, record.actors));
  if (!record.ranks.empty()) {
    voices.push_back(list_ranks(std::vector<int>(record.ranks.begin(), record.ranks.end())));
  }
  for (const std::string& host : record.hosts) add_once(voices, host);
  return joined_words(voices, "; ");
}

namespace {

/// "node3 (10.0.0.4)": an address, with its host where a log names it.
std::string name_peer(const RankMap& rank_map, const std::string& address) {
  const auto host = rank_map.host_of_address.find(address);
  if (host == rank_map.host_of_address.end() || host->second.empty()) return address;
  return fmt::format("{} ({})", host->second, address);
}

std::string quoted_warning(const LogView& view, const WarningRecord& record) {
  const std::string times = record.times > 1 ? fmt::format(" ({} times)", record.times) : "";
  const std::string who = record.actor != kNone ? view.rank_map.name_of[record.actor] : voice_of(view, record);
  return fmt::format("{}{}\"{}\"{}", who, who.empty() ? "" : ": ", record.example, times);
}

/// "rank 4 (kolyoz2, pid 25146): InfiniBand completion error 4: local protection error".
std::string meaning_of(const LogView& view, const WarningRecord& record) {
  const std::string who = voice_of(view, record);
  const std::string what = record.rule->means.empty() ? record.example : record.rule->means;
  return who.empty() ? what : who + ": " + what;
}

/// The ranks that a text names: "rank 0 and rank 1 both on CUDA device 1000".
std::vector<int> ranks_in(std::string_view text) {
  std::vector<int> ranks;
  for (std::size_t at = text.find("rank "); at != kNotFound && ranks.size() < 64; at = text.find("rank ", at + 1)) {
    int rank = -1;
    if (LogScan{text.substr(at + 5)}.number(rank) && rank >= 0 && !contains(ranks, rank)) ranks.push_back(rank);
  }
  return ranks;
}

Finding finding_of(const LogView& view, const WarningRecord& record, Verdict verdict) {
  Finding finding;
  finding.verdict = verdict;
  finding.sentence = meaning_of(view, record);
  finding.evidence.push_back(quoted_warning(view, record));
  if (!record.rule->remedy.empty()) finding.next.emplace_back(record.rule->remedy);
  return finding;
}

/// The same, and whoever says it is where the fault is, unless the text names others.
Finding fault_of(const LogView& view, const WarningRecord& record, Verdict verdict) {
  Finding finding = finding_of(view, record, verdict);
  finding.ranks = ranks_in(record.example);
  if (!finding.ranks.empty()) return finding;
  blame(view, record.actors, finding);
  for (const int rank : record.ranks) {
    if (!contains(finding.ranks, rank)) finding.ranks.push_back(rank);
  }
  for (const std::string& host : record.hosts) add_once(finding.hosts, host);
  return finding;
}

/// The peers named in warnings of a kind, as addresses.
std::vector<std::string> peers_of(const LogView& view, RuleKind kind) {
  std::vector<std::string> peers;
  for (const auto& [peer, times] : view.book.named_peers) {
    if (peer.first == kind) peers.push_back(peer.second);
  }
  return peers;
}

/// The host that has an address, where a log tells it, else the address.
std::string host_at(const LogView& view, const std::string& address) {
  const auto host = view.rank_map.host_of_address.find(address);
  return host == view.rank_map.host_of_address.end() || host->second.empty() ? address : host->second;
}

/// Addresses that container engines and virtual machines give their bridges: 172.17.0.0/12 and 192.168.122.0/24.
bool is_bridge_address(std::string_view address) {
  int second = 0;
  LogScan scan{address};
  return address.starts_with("192.168.122.") ||
         (scan.take("172.") && scan.number(second) && second > 16 && second < 32);
}

/// Where all ranks but 0 speak of it, the one that does not is the root that they look for.
bool only_root_is_missing(const LogView& view, const WarningRecord& record) {
  std::set<int> spoke = record.ranks;
  for (const std::uint32_t actor : record.actors) spoke.insert(view.rank_map.rank_of[actor]);
  if (spoke.size() < 2 || *spoke.begin() != 1 || *spoke.rbegin() != static_cast<int>(spoke.size())) return false;
  return !view.rank_map.actor_of.contains(0);
}

/// The ranks that gave up on a peer that refused although all had met: it has gone since.
std::vector<std::uint32_t> refused_after_init(const LogView& view) {
  std::vector<std::uint32_t> refused;
  for (const WarningRecord& record : view.book.warnings.records()) {
    if (record.rule->kind != RuleKind::refused) continue;
    for (const std::uint32_t actor : record.actors) {
      const Actor& one = view.book.actors[actor];
      const bool met = one.instance != kNone && view.book.instances[one.instance].completed;
      const std::uint32_t owner = view.rank_map.owner_of[actor];
      if (met && one.failures > 0 && !contains(refused, owner)) refused.push_back(owner);
    }
  }
  return refused;
}

/// Whether an address is of the host that says so itself.
bool is_own_address(const LogView& view, std::uint32_t actor, const std::string& address) {
  return address.starts_with("127.") || address == "::1" ||
         view.book.processes[view.book.actors[actor].process].addresses.contains(address);
}

void find_unreachable(const LogView& view, const WarningRecord& record, Findings& findings) {
  Finding finding = finding_of(view, record, Verdict::host_unreachable);
  const bool refused = record.rule->kind == RuleKind::refused;
  const std::vector<std::string> peers = peers_of(view, record.rule->kind);
  if (!peers.empty()) {
    const std::string who = voice_of(view, record);
    finding.sentence =
        fmt::format("{}{} {}{}{}", name_peer(view.rank_map, peers.front()),
                    peers.size() > 1 ? fmt::format(" and {} more", peers.size() - 1) : "",
                    refused ? (peers.size() > 1 ? "refuse connections" : "refuses connections") : "cannot be reached",
                    who.empty() ? ""
                    : refused   ? " of "
                                : " by ",
                    who);
    for (const std::string& peer : peers) {
      add_once(finding.hosts, host_at(view, peer));
      if (finding.evidence.size() < 4 && peers.size() > 1) {
        finding.evidence.push_back("named as the peer: " + name_peer(view.rank_map, peer));
      }
    }
    const auto bridge = std::ranges::find_if(peers, is_bridge_address);
    if (bridge != peers.end()) {
      finding.evidence.push_back(*bridge +
                                 " looks like the address of a container's or virtual machine's bridge, which "
                                 "no other host can reach");
      finding.next.insert(finding.next.begin(),
                          "ip -br addr on the host that has that address; NCCL_SOCKET_IFNAME=^lo,docker,br-,veth,virbr "
                          "or the interface that all hosts share");
    }
  } else if (only_root_is_missing(view, record)) {
    finding.sentence = fmt::format("rank 0, of which nothing is told, {} {}", refused ? "refuses" : "does not answer",
                                   voice_of(view, record));
    finding.ranks.push_back(0);
    finding.missing.emplace_back("the log of rank 0");
  } else {
    finding.missing.emplace_back(
        "the address of the peer: NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET; and the other hosts' logs");
  }
  const std::vector<std::uint32_t> gave_up = refused ? refused_after_init(view) : std::vector<std::uint32_t>{};
  if (!gave_up.empty() && !peers.empty() && std::ranges::all_of(peers, [&](const std::string& peer) {
        return is_own_address(view, gave_up.front(), peer);
      })) {
    // Its own host it has reached.
    finding.verdict = Verdict::process_dead;
    finding.sentence = fmt::format("a process on the host of {} has gone since they met: it refuses connections",
                                   list_actors(view.rank_map, gave_up));
  }
  // Whoever has gone refuses, whatever made it go.
  refused ? findings.emplace_back(std::move(finding), Verdict::config) : findings.emplace_back(std::move(finding));
}

/// Whether some communicator's calls were compared and all agree.
bool calls_agree(const LogView& view) {
  bool compared = false;
  for (std::size_t i = 0; i < view.comms.size(); ++i) {
    if (view.divergences[i]) return false;
    compared = compared || view.alignments[i].streams.size() > 1;
  }
  return compared;
}

/// Sizes differ on the wire: either the calls differ, or what NCCL made of them.
void find_size_mismatch(const LogView& view, const WarningRecord& record, Findings& findings) {
  Finding finding = finding_of(view, record, Verdict::arg_mismatch);
  std::string unequal;
  for (const SettingSkew& skew : setting_skews(view, true)) {
    if (unequal.empty()) unequal = skew.text;
  }
  if (!unequal.empty() || calls_agree(view)) {
    finding.verdict = Verdict::config;
    finding.sentence =
        fmt::format("the transport of {} received another size than it expected, although {}",
                    list_actors(view.rank_map, record.actors),
                    unequal.empty() ? "the calls agree: NCCL chose otherwise there (environment, version, topology)"
                                    : "a setting is not the same everywhere: " + unequal);
    if (!unequal.empty()) finding.evidence.push_back(unequal);
    if (calls_agree(view)) finding.evidence.emplace_back("the calls that the logs hold agree over all ranks seen");
  } else {
    finding.sentence += ": the calls, or the environments, differ";
  }
  findings.push_back(std::move(finding));
}

}  // namespace

namespace {

/// A path has two ends, and a completion error does not tell which is broken; a local error is the reporter's.
void find_hardware(const LogView& view, const WarningRecord& record, Findings& findings) {
  const std::vector<std::string> peers = peers_of(view, RuleKind::hardware);
  if (peers.empty() || record.rule->blame == RuleBlame::speaker) {
    findings.push_back(fault_of(view, record, Verdict::hw_fault));
    return;
  }
  Finding finding = finding_of(view, record, Verdict::hw_fault);
  blame_hosts(view, record.actors, finding);
  for (const std::string& peer : peers) {
    add_once(finding.hosts, host_at(view, peer));
    if (finding.evidence.size() < 3) {
      finding.evidence.push_back("the peer of that connection: " + name_peer(view.rank_map, peer));
    }
  }
  // InfiniBand's own GIDs are always so; those of RoCE are so where the interface has no address.
  const std::string low = lower_case(record.example);
  const bool roce = view.book.facts.contains({"link_layer", "RoCE"}) || low.find("roce") != kNotFound;
  const bool link_local =
      low.find("gid fe80:") != kNotFound || low.find("gid  fe80:") != kNotFound || low.find("gids fe80:") != kNotFound;
  if (roce && link_local) {
    finding.evidence.emplace_back(
        "its addresses (GIDs) are link-local, fe80::: that port has no IP address, and no router forwards such "
        "packets");
    finding.next.insert(finding.next.begin(),
                        "ip -br addr on both hosts: give the interface of that port an address, take the port out of "
                        "NCCL_IB_HCA, or choose a GID with one (show_gids; NCCL_IB_GID_INDEX)");
  }
  findings.push_back(std::move(finding));
}

/// What the environment of a process sets a variable to; null: not set, or not in the log.
const std::string* setting_of(const LogView& view, std::uint32_t actor, const std::string& name) {
  const auto& env = view.book.processes[view.book.actors[actor].process].env;
  const auto set = env.find(name);
  return set == env.end() ? nullptr : &set->second;
}

/// Whether all who say it have the setting with which it means nothing.
bool is_unwanted(const LogView& view, const WarningRecord& record) {
  const std::string& unless = record.rule->unless;
  const std::size_t equals = std::min(unless.find('='), unless.size());
  return !unless.empty() && !record.actors.empty() && std::ranges::all_of(record.actors, [&](std::uint32_t actor) {
    const std::string* value = setting_of(view, actor, unless.substr(0, equals));
    return value != nullptr && *value == unless.substr(equals + 1);
  });
}

void find_config(const LogView& view, const WarningRecord& record, Findings& findings) {
  if (is_unwanted(view, record)) return;
  Finding finding = fault_of(view, record, Verdict::config);
  if (record.rule->blame == RuleBlame::nobody) {
    finding.ranks.clear();
    finding.hosts.clear();
  }
  for (const std::uint32_t actor : record.actors) {
    const std::string* value = setting_of(view, actor, record.rule->shows);
    if (value != nullptr && !value->empty()) {
      add_once(finding.evidence, fmt::format("{}={} is set there", record.rule->shows, *value));
    }
  }
  findings.push_back(std::move(finding));
}

}  // namespace

void find_in_warnings(const LogView& view, Findings& findings) {
  for (const WarningRecord* one : causes_first(view.book.warnings)) {
    const WarningRecord& record = *one;
    switch (record.rule->kind) {
      case RuleKind::hardware:
        find_hardware(view, record, findings);
        break;
      case RuleKind::unreachable:
      case RuleKind::refused:
        find_unreachable(view, record, findings);
        break;
      case RuleKind::resource:
        findings.push_back(fault_of(view, record, Verdict::resource));
        break;
      case RuleKind::config:
        find_config(view, record, findings);
        break;
      case RuleKind::call_mismatch:
        findings.push_back(fault_of(view, record, Verdict::arg_mismatch));
        break;
      case RuleKind::size_mismatch:
        find_size_mismatch(view, record, findings);
        break;
      case RuleKind::fallout: {
        Finding finding = finding_of(view, record, Verdict::unknown);
        finding.missing.emplace_back(
            "what broke the GPU's context: the first CUDA error, dmesg (XID), the program's output");
        findings.push_back(std::move(finding));
        break;
      }
      case RuleKind::other: {
        Finding finding = finding_of(view, record, Verdict::unknown);
        finding.sentence =
            fmt::format("{}: a warning that is not known here: \"{}\"", voice_of(view, record), record.example);
        finding.next.emplace_back(
            "the lines around it; NCCL's source has its words (git grep in the version that ran)");
        findings.push_back(std::move(finding));
        break;
      }
      case RuleKind::victim:  // find_silent_ranks
      case RuleKind::harmless:
      default:  // programs' lines are no warnings
        break;
    }
  }
}

namespace {

/// The members of communicators whose logs end without a complaint and without destroying the communicator.
std::vector<std::uint32_t> silent_actors(const LogView& view) {
  std::set<std::uint32_t> members, spoke;
  for (std::uint32_t actor = 0; actor < view.book.actors.size(); ++actor) {
    const Actor& one = view.book.actors[actor];
    if (one.warnings + one.failures > 0) spoke.insert(view.rank_map.owner_of[actor]);
  }
  for (const JoinedComm& comm : view.comms) {
    for (const CommMember& member : comm.members) {
      members.insert(member.actor);
      if (view.book.instances[member.instance].ended) spoke.insert(member.actor);
    }
  }
  std::vector<std::uint32_t> silent;
  for (const std::uint32_t actor : members) {
    if (spoke.count(actor) == 0) silent.push_back(actor);
  }
  return silent;
}

/// The ranks that complain that a peer went away.
std::vector<std::uint32_t> victims_of(const LogView& view) {
  std::set<std::uint32_t> complaining;
  for (std::uint32_t actor = 0; actor < view.book.actors.size(); ++actor) {
    if (view.book.actors[actor].victim_warnings > 0) complaining.insert(view.rank_map.owner_of[actor]);
  }
  std::vector<std::uint32_t> victims;
  for (const std::uint32_t actor : view.rank_map.rank_actors) {
    if (complaining.count(actor) > 0) victims.push_back(actor);
  }
  return victims;
}

/// Whether `names` have the host, or its name with a domain.
bool has_host(const std::set<std::string>& names, const std::string& host) {
  const auto longer = names.lower_bound(host + ".");
  return !host.empty() && (names.contains(host) || (longer != names.end() && longer->starts_with(host + ".")));
}

/// Those of `actors` on a host that complaints about lost peers name; these peers are added to `named`.
std::vector<std::uint32_t> on_named_hosts(const LogView& view, std::vector<std::uint32_t> actors, RuleKind complaint,
                                          std::vector<std::string>& named) {
  for (const auto& [peer, times] : view.book.named_peers) {
    if (peer.first == complaint) named.push_back(peer.second);
  }
  std::set<std::string> hosts;
  for (const std::string& address : named) {
    const auto known = view.rank_map.host_of_address.find(address);
    hosts.insert(known != view.rank_map.host_of_address.end() ? known->second : address);
  }
  std::erase_if(actors, [&](std::uint32_t actor) { return !has_host(hosts, host_of(view.book, actor)); });
  return actors;
}

/// Those that stopped first, where calls show it; else all of `actors`.
std::vector<std::uint32_t> furthest_behind(const LogView& view, const std::vector<std::uint32_t>& actors) {
  const std::set<std::uint32_t> asked(actors.begin(), actors.end());
  for (std::size_t i = 0; i < view.comms.size(); ++i) {
    if (!view.lags[i]) continue;
    std::vector<std::uint32_t> behind = actors_of(view.alignments[i], view.lags[i]->behind);
    std::erase_if(behind, [&](std::uint32_t actor) { return !asked.contains(actor); });
    if (!behind.empty()) return behind;
  }
  return actors;
}

/// Whether some line says what went wrong: a rank that fell silent then is one more victim.
bool cause_is_told(const LogView& view) {
  const auto tells = [](const WarningRecord& record) {
    return record.rule->kind != RuleKind::victim && record.rule->kind != RuleKind::harmless &&
           record.rule->kind != RuleKind::other && record.rule->kind != RuleKind::refused;
  };
  return !view.book.kernel.empty() || std::ranges::any_of(view.book.warnings.records(), tells);
}

/// Programs that pass on what NCCL told them of a lost peer.
void find_nameless_victims(const LogView& view, Findings& findings) {
  const std::vector<std::string> peers = peers_of(view, RuleKind::victim);
  Finding finding;
  for (const WarningRecord* record : causes_first(view.book.warnings)) {
    if (record->rule->kind == RuleKind::victim && finding.evidence.size() < 3) {
      finding.evidence.push_back(quoted_warning(view, *record));
    }
  }
  if (finding.evidence.empty()) return;
  finding.sentence =
      fmt::format("only victims speak: a connection{} was lost; the process that went away is not in {}",
                  peers.empty() ? "" : " to " + name_peer(view.rank_map, peers.front()), name_files(view.files));
  if (peers.size() == 1) finding.hosts.push_back(host_at(view, peers.front()));
  finding.missing.push_back(fmt::format("the log of the process{} that closed the connection",
                                        peers.empty() ? "" : " at " + name_peer(view.rank_map, peers.front())));
  finding.next.emplace_back(
      "the first error by time on that host: its NCCL log, dmesg (XID, link down, killed for "
      "memory), the launcher's output");
  findings.push_back(std::move(finding));
}

}  // namespace

void find_silent_ranks(const LogView& view, Findings& findings) {
  if (cause_is_told(view)) return;
  std::vector<std::uint32_t> victims = victims_of(view);
  const bool refused = victims.empty();
  if (refused) victims = refused_after_init(view);
  if (victims.empty()) {
    find_nameless_victims(view, findings);
    return;
  }
  std::vector<std::string> named;
  const std::vector<std::uint32_t> all_silent = silent_actors(view);
  std::vector<std::uint32_t> silent =
      on_named_hosts(view, all_silent, refused ? RuleKind::refused : RuleKind::victim, named);
  const bool host_known = !silent.empty();
  if (!host_known) silent = all_silent;
  std::erase_if(silent, [&](std::uint32_t actor) { return view.lost.may_lack_end(actor); });
  if (silent.size() > 1) silent = furthest_behind(view, silent);
  Finding finding;
  finding.evidence.push_back(fmt::format("{} lost {}: \"{}\" and its like", list_actors(view.rank_map, victims),
                                         victims.size() == 1 ? "a peer" : "peers",
                                         refused ? "connection refused" : "closed by remote peer"));
  for (const std::string& address : named) {
    if (finding.evidence.size() < 4)
      finding.evidence.push_back("named as the peer: " + name_peer(view.rank_map, address));
  }
  // Silent ranks must be few against those that complain, or a log is merely cut.
  if (silent.empty() || silent.size() >= std::max<std::size_t>(victims.size(), 2)) {
    if (refused) return;  // find_unreachable says who
    finding.verdict = Verdict::unknown;
    finding.sentence =
        fmt::format("only victims speak: {} lost a connection{}; the process that went away is not in {}",
                    list_actors(view.rank_map, victims),
                    named.empty() ? "" : " to " + name_peer(view.rank_map, named.front()), name_files(view.files));
    finding.missing.push_back(fmt::format("the log of the process{} that closed the connection",
                                          named.empty() ? "" : " at " + name_peer(view.rank_map, named.front())));
    finding.next.emplace_back("the first error by time on that host: its NCCL log, dmesg, the launcher's output");
    findings.push_back(std::move(finding));
    return;
  }
  std::set<std::string> hosts;
  for (const std::uint32_t actor : silent) hosts.insert(host_of(view.book, actor));
  std::size_t of_host = 0;
  for (const std::uint32_t actor : view.rank_map.rank_actors) of_host += hosts.count(host_of(view.book, actor));
  const bool whole_host =
      hosts.size() == 1 && silent.size() > 1 && of_host == silent.size() && view.rank_map.hosts.size() > 1;
  finding.verdict = whole_host ? Verdict::host_unreachable : Verdict::process_dead;
  finding.sentence =
      whole_host ? fmt::format("all ranks of {} fell silent: {}", *hosts.begin(), list_actors(view.rank_map, silent))
                 : fmt::format("{} went away without a word: {} log{} neither with an error nor with a goodbye",
                               list_actors(view.rank_map, silent), silent.size() == 1 ? "its" : "their",
                               silent.size() == 1 ? " ends" : "s end");
  whole_host ? blame_hosts(view, silent, finding) : blame(view, silent, finding);
  finding.next.emplace_back(
      "dmesg (killed for memory, XID), core dumps and the launcher's output on that host: the first by time is the "
      "cause; nothing there: the program itself called exit");
  findings.push_back(std::move(finding));
}

}  // namespace busbar
