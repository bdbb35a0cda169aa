#include "common/base/lists.h"
#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace busbar {

Finding make_finding(Verdict verdict, std::string sentence, std::vector<std::string> evidence,
                     std::vector<std::string> next, std::vector<std::string> missing) {
  return {verdict, std::move(sentence), {}, {}, std::move(evidence), std::move(missing), std::move(next), {}, {}};
}

void blame(const LogView& view, std::span<const std::uint32_t> sources, Finding& finding) {
  blame_ranks(view, sources, finding);
  blame_hosts(view, sources, finding);
}

void blame_ranks(const LogView& view, std::span<const std::uint32_t> sources, Finding& finding) {
  std::set<int> ranks(finding.ranks.begin(), finding.ranks.end());
  for (const std::uint32_t source : sources) {
    const int rank = view.rank_map.rank_of[source];
    if (rank >= 0) ranks.insert(rank);
  }
  finding.ranks.assign(ranks.begin(), ranks.end());
}

void blame_hosts(const LogView& view, std::span<const std::uint32_t> sources, Finding& finding) {
  std::set<std::string> known(finding.hosts.begin(), finding.hosts.end());
  for (const std::uint32_t source : sources) {
    const std::string& host = host_of(view.book, source);
    if (!host.empty() && known.insert(host).second) finding.hosts.push_back(host);
  }
}

std::string writer_of(const LogView& view, const WarningRecord& record) {
  std::vector<std::string> writers;
  if (!record.sources.empty()) writers.push_back(list_sources(view.rank_map, record.sources));
  std::set<int> others = record.ranks;
  for (const std::uint32_t source : record.sources) others.erase(view.rank_map.rank_of[source]);
  if (!others.empty()) writers.push_back(list_ranks(others));
  for (const std::string& device : record.devices) add_once(writers, device);
  for (const std::string& host : record.hosts) add_once(writers, host);
  return joined_words(writers, "; ");
}

namespace {

/// The host that has an address, if a log shows it, else the address.
std::string host_at(const LogView& view, const std::string& address) {
  const auto host = view.rank_map.host_of_address.find(address);
  return host == view.rank_map.host_of_address.end() || host->second.empty() ? address : host->second;
}

/// "node3 (10.0.0.4)": an address, with its host if a log names it.
std::string name_peer(const LogView& view, const std::string& address) {
  const std::string host = host_at(view, address);
  return host == address ? address : fmt::format("{} ({})", host, address);
}

std::string quoted_warning(const LogView& view, const WarningRecord& record) {
  const std::string times = record.times > 1 ? fmt::format(" ({} times)", record.times) : "";
  const std::string who = record.source != kNoIndex ? view.rank_map.name_of[record.source] : writer_of(view, record);
  return fmt::format("{}{}\"{}\"{}", who, who.empty() ? "" : ": ", record.example, times);
}

/// "rank 4 (kolyoz2, pid 25146): InfiniBand completion error 4: local protection error".
std::string meaning_of(const LogView& view, const WarningRecord& record) {
  const std::string who = writer_of(view, record);
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
  Finding finding = make_finding(verdict, meaning_of(view, record), {quoted_warning(view, record)});
  if (!record.rule->remedy.empty()) finding.next.emplace_back(record.rule->remedy);
  finding.devices.assign(record.devices.begin(), record.devices.end());
  finding.rules = {record.rule->id};
  return finding;
}

/// The same, and the rank that warns has the fault, unless the text names others.
Finding fault_of(const LogView& view, const WarningRecord& record, Verdict verdict) {
  Finding finding = finding_of(view, record, verdict);
  if (record.rule->blame == RuleBlame::nobody) return finding;
  if (record.rule->blame != RuleBlame::named) finding.ranks = ranks_in(record.example);
  if (!finding.ranks.empty()) return finding;
  blame(view, record.sources, finding);
  add_new(finding.ranks, record.ranks);
  add_new(finding.hosts, record.hosts);
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

/// If all ranks but 0 log it, rank 0 is the root that they try to reach.
bool only_root_is_missing(const LogView& view, const WarningRecord& record) {
  std::set<int> spoke = record.ranks;
  for (const std::uint32_t source : record.sources) spoke.insert(view.rank_map.rank_of[source]);
  return spoke.size() > 1 && *spoke.begin() == 1 && *spoke.rbegin() == static_cast<int>(spoke.size()) &&
         !view.rank_map.source_of.contains(0);
}

/// The ranks that gave up on a peer that refused although all had met: it has gone since.
std::vector<std::uint32_t> refused_after_init(const LogView& view) {
  std::vector<std::uint32_t> refused;
  for (const WarningRecord& record : view.book.warnings) {
    if (record.rule->kind != RuleKind::refused) continue;
    for (const std::uint32_t source : record.sources) {
      const LogSource& one = view.book.sources[source];
      const bool met = one.instance != kNoIndex && view.book.instances[one.instance].completed;
      const std::uint32_t owner = view.rank_map.owner_of[source];
      if (met && one.failures > 0 && !contains(refused, owner)) refused.push_back(owner);
    }
  }
  return refused;
}

void find_unreachable(const LogView& view, const WarningRecord& record, Findings& findings) {
  Finding finding = finding_of(view, record, Verdict::host_unreachable);
  const bool refused = record.rule->kind == RuleKind::refused;
  std::vector<std::string> peers = peers_of(view, record.rule->kind);
  if (record.rule->blame == RuleBlame::named) peers.assign(record.hosts.begin(), record.hosts.end());
  if (!peers.empty()) {
    const bool several = peers.size() > 1;
    const std::string who = record.rule->blame == RuleBlame::named ? "" : writer_of(view, record);
    std::string what = !refused ? "cannot be reached" : several ? "refuse connections" : "refuses connections";
    if (!who.empty()) what += (refused ? " of " : " by ") + who;
    finding.sentence = fmt::format("{}{} {}", name_peer(view, peers.front()),
                                   several ? fmt::format(" and {} more", peers.size() - 1) : "", what);
    for (const std::string& peer : peers) {
      add_once(finding.hosts, host_at(view, peer));
      if (several && finding.evidence.size() < 4)
        finding.evidence.push_back("named as the peer: " + name_peer(view, peer));
    }
    const auto of_bridge = [](const std::string& peer) { return builtin_line_rules().has("bridge-addresses", peer); };
    const auto bridge = std::ranges::find_if(peers, of_bridge);
    if (bridge != peers.end()) {
      finding.evidence.push_back(*bridge +
                                 " looks like the address of a container's or virtual machine's bridge, which "
                                 "no other host can reach");
      finding.next.insert(finding.next.begin(), remedy("bridge-address"));
    }
  } else if (only_root_is_missing(view, record)) {
    finding.sentence = fmt::format("rank 0, which logged nothing, {} {}", refused ? "refuses" : "does not answer",
                                   writer_of(view, record));
    finding.ranks.push_back(0);
    finding.missing.emplace_back("the log of rank 0");
  } else {
    if (record.rule->blame == RuleBlame::writer) finding.hosts = fault_of(view, record, finding.verdict).hosts;
    finding.missing.emplace_back(
        "the address of the peer: NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET; and the other hosts' logs");
  }
  const std::vector<std::uint32_t> gave_up = refused ? refused_after_init(view) : std::vector<std::uint32_t>{};
  const auto is_own = [&](const std::string& peer) {
    return peer.starts_with("127.") || peer == "::1" || process_of(view.book, gave_up.front()).addresses.contains(peer);
  };
  if (!gave_up.empty() && !peers.empty() && std::ranges::all_of(peers, is_own)) {
    // It has reached its own host.
    finding.verdict = Verdict::process_dead;
    finding.sentence = fmt::format("a process on the host of {} has gone since they met: it refuses connections",
                                   list_sources(view.rank_map, gave_up));
  }
  const bool one_host = view.rank_map.hosts.size() < 2;  // a job on it may well meet at a loopback address
  if (!peers.empty() && std::ranges::all_of(peers, is_local) &&
      !(one_host && (refused || record.rule->program == "pytorch"))) {
    finding.verdict = Verdict::config;
    finding.hosts.clear();
    finding.sentence =
        fmt::format("{} is an address that only its own host can reach, but was taken for a peer's{}", peers.front(),
                    writer_of(view, record).empty() ? "" : " by " + writer_of(view, record));
    finding.next = {remedy("bridge-address")};
  }
  // A process that has gone refuses, whatever made it go.
  findings.emplace_back(std::move(finding), refused ? std::optional(Verdict::config) : std::nullopt);
}

/// Whether some communicator's calls were compared and all agree.
bool calls_agree(const LogView& view) {
  bool compared = false;
  for (const AlignedComm& comm : view.comms) {
    if (comm.divergence) return false;
    compared = compared || comm.alignment.streams.size() > 1;
  }
  return compared;
}

/// Sizes differ on the wire: either the calls differ, or NCCL's choices for them.
void find_size_mismatch(const LogView& view, const WarningRecord& record, Findings& findings) {
  Finding finding = finding_of(view, record, Verdict::arg_mismatch);
  const std::vector<SettingSkew> skews = setting_skews(view, true);
  const std::string unequal = skews.empty() ? "" : skews.front().text;
  if (!unequal.empty() || calls_agree(view)) {
    finding.verdict = Verdict::config;
    finding.sentence =
        fmt::format("the transport of {} received another size than it expected, although {}",
                    list_sources(view.rank_map, record.sources),
                    unequal.empty() ? "the calls agree: NCCL chose differently there (environment, version, topology)"
                                    : "a setting is not the same everywhere: " + unequal);
    if (!unequal.empty()) finding.evidence.push_back(unequal);
    if (calls_agree(view)) finding.evidence.emplace_back("the calls that the logs hold agree over all ranks seen");
  } else {
    finding.sentence += ": the calls, or the environments, differ";
    if (record.rule->blame == RuleBlame::writer) add_new(finding.hosts, record.hosts);
  }
  findings.push_back(std::move(finding));
}

/// The hosts that report it, in whatever shape.
std::set<std::string> hosts_of(const LogView& view, const LineRule* rule) {
  std::set<std::string> hosts;
  for (const WarningRecord& record : view.book.warnings) {
    if (record.rule != rule) continue;
    hosts.insert(record.hosts.begin(), record.hosts.end());
    for (const std::uint32_t source : record.sources) hosts.insert(host_of(view.book, source));
  }
  return hosts;
}

/// A path has two ends, and a completion error does not show which is broken; a local error is the reporter's.
void find_hardware(const LogView& view, const WarningRecord& record, Findings& findings) {
  const std::vector<std::string> peers = peers_of(view, RuleKind::hardware);
  const std::set<std::string> reporters = hosts_of(view, record.rule);
  const bool both_ends = record.rule->blame == RuleBlame::both_ends;
  if (peers.empty() || !both_ends) {
    // Several hosts lost a peer that none of them names: it is none of them.
    const bool nameless = both_ends && reporters.size() > 1;
    findings.push_back((nameless ? finding_of : fault_of)(view, record, Verdict::hw_fault));
    return;
  }
  Finding finding = finding_of(view, record, Verdict::hw_fault);
  for (const std::string& peer : peers) {
    add_once(finding.hosts, host_at(view, peer));
    if (finding.evidence.size() < 3)
      finding.evidence.push_back("the peer of that connection: " + name_peer(view, peer));
  }
  // A host that lost several peers, or is one of them, may be what is broken; others only report.
  if (finding.hosts.size() > 1 || reporters.contains(finding.hosts.front())) blame_hosts(view, record.sources, finding);
  // InfiniBand's own GIDs are always link-local; those of RoCE are if the interface has no address.
  const std::string low = lower_case(record.example);
  const bool roce = view.book.facts.contains({"link_layer", "RoCE"}) || mentions(low, "roce");
  const bool link_local = mentions(low, "gid fe80:") || mentions(low, "gid  fe80:") || mentions(low, "gids fe80:");
  if (roce && link_local) {
    finding.evidence.emplace_back(
        "its addresses (GIDs) are link-local, fe80::: that port has no IP address, and no router forwards such "
        "packets");
    finding.next.insert(finding.next.begin(), remedy("link-local-address"));
  }
  findings.push_back(std::move(finding));
}

/// Whether all ranks that log it have the setting with which it means nothing, or started all the same.
bool is_unwanted(const LogView& view, const WarningRecord& record) {
  const auto has_begun = [&](std::uint32_t source) {
    const LogSource& one = view.book.sources[source];
    const int version = nccl_version_of(view);
    const bool fell_back = one.got_through && version > 0 && version < kSaysInit;  // such a log is often cut there
    return fell_back || (one.instance != kNoIndex && view.book.instances[one.instance].completed);
  };
  const auto& facts = view.book.facts;
  const bool works = facts.contains({"rows", "none of them wrong"}) || facts.contains({"works", "steps are done"});
  const bool begun = !record.sources.empty() && std::ranges::all_of(record.sources, has_begun);
  if (record.rule->where == RuleWhere::start && (works || begun)) return true;
  const std::string& unless = record.rule->unless;
  const std::size_t equals = std::min(unless.find('='), unless.size());
  return !unless.empty() && !record.sources.empty() && std::ranges::all_of(record.sources, [&](std::uint32_t source) {
    const auto& env = process_of(view.book, source).env;
    const auto set = env.find(unless.substr(0, equals));
    return set != env.end() && set->second == unless.substr(equals + 1);
  });
}

void find_config(const LogView& view, const WarningRecord& record, Findings& findings) {
  Finding finding = fault_of(view, record, Verdict::config);
  for (const std::uint32_t source : record.sources) {
    const std::string value = process_of(view.book, source).setting(record.rule->shows);
    if (!value.empty()) add_once(finding.evidence, fmt::format("{}={} is set there", record.rule->shows, value));
  }
  findings.push_back(std::move(finding));
}

/// Members of communicators whose logs end without a complaint and without destroying the communicator.
std::vector<std::uint32_t> silent_sources(const LogView& view) {
  std::set<std::uint32_t> members, spoke;
  for (std::uint32_t source = 0; source < view.book.sources.size(); ++source) {
    const LogSource& one = view.book.sources[source];
    if (one.warnings + one.failures > 0) spoke.insert(view.rank_map.owner_of[source]);
  }
  for (const JoinedComm& comm : view.comms) {
    if (!comm.recorded_as.empty()) continue;  // a dump is no log that ends
    for (const CommMember& one : comm.members) (one.instance->ended ? spoke : members).insert(one.source);
  }
  std::erase_if(members, [&](std::uint32_t source) { return spoke.contains(source); });
  return {members.begin(), members.end()};
}

/// The ranks that complain that a peer went away.
std::vector<std::uint32_t> victims_of(const LogView& view) {
  std::set<std::uint32_t> complaining;
  for (std::uint32_t source = 0; source < view.book.sources.size(); ++source) {
    if (view.book.sources[source].victim_warnings > 0) complaining.insert(view.rank_map.owner_of[source]);
  }
  return ranks_that(view, [&](std::uint32_t source) { return complaining.contains(source); });
}

/// Those of `sources` on a host that is named as a lost peer.
std::vector<std::uint32_t> on_named_hosts(const LogView& view, std::vector<std::uint32_t> sources,
                                          const std::vector<std::string>& named) {
  std::set<std::string> hosts;
  for (const std::string& address : named) hosts.insert(host_at(view, address));
  std::erase_if(sources, [&](std::uint32_t source) {
    const std::string& host = host_of(view.book, source);
    const auto longer = hosts.lower_bound(host + ".");  // with its domain
    return host.empty() || !(hosts.contains(host) || (longer != hosts.end() && longer->starts_with(host + ".")));
  });
  return sources;
}

/// Those that stopped first, if calls show it; else all of `sources`.
std::vector<std::uint32_t> furthest_behind(const LogView& view, const std::vector<std::uint32_t>& sources) {
  const std::set<std::uint32_t> asked(sources.begin(), sources.end());
  for (const AlignedComm& comm : view.comms) {
    if (!comm.lag) continue;
    std::vector<std::uint32_t> behind = sources_of(comm.alignment, comm.lag->behind);
    std::erase_if(behind, [&](std::uint32_t source) { return !asked.contains(source); });
    if (!behind.empty()) return behind;
  }
  return sources;
}

/// Whether some line says what went wrong: then a silent rank is one more victim.
bool cause_is_told(const LogView& view) {
  const auto tells = [](const WarningRecord& record) {
    return record.rule->kind != RuleKind::victim && record.rule->kind != RuleKind::harmless &&
           record.rule->kind != RuleKind::other && record.rule->kind != RuleKind::refused;
  };
  return !view.book.kernel.empty() || std::ranges::any_of(view.book.warnings, tells);
}

/// The one peer that victims name and that writes nothing itself; empty if there is none, or several.
std::string silent_peer(const LogView& view, const std::vector<std::string>& peers) {
  std::vector<std::string> silent;
  if (view.book.processes.empty()) return "";  // the writers are not known
  for (const std::string& peer : peers) {
    const std::string host = host_at(view, peer);
    const auto writes = [&](const Process& one) {
      return !one.host.empty() && (host == one.host || host.starts_with(one.host + "."));
    };
    if (std::ranges::none_of(view.book.processes, writes) && !is_local(host)) add_once(silent, host);
  }
  return silent.size() == 1 ? silent.front() : "";
}

/// The rank that went away is not in the logs. `what` the victims report, `peers` as they name them.
Finding only_victims(const LogView& view, const std::string& what, const std::vector<std::string>& peers,
                     std::vector<std::string> evidence, const std::string& next) {
  const std::string at = peers.empty() ? "" : " at " + name_peer(view, peers.front());
  Finding finding = make_finding(
      Verdict::unknown,
      fmt::format("only victims complain: {}; the process that went away is not in {}", what, name_files(view.files)),
      std::move(evidence), {next}, {fmt::format("the log of the process{} that closed the connection", at)});
  add_once(finding.hosts, silent_peer(view, peers));
  return finding;
}

/// " to node3 (10.0.0.4)", if a peer is named.
std::string to_first(const LogView& view, const std::vector<std::string>& peers) {
  return peers.empty() ? "" : " to " + name_peer(view, peers.front());
}

/// Programs that pass on NCCL's report of a lost peer.
void find_nameless_victims(const LogView& view, Findings& findings) {
  const std::vector<std::string> peers = peers_of(view, RuleKind::victim);
  std::vector<std::string> evidence;
  std::string what = fmt::format("a connection{} was lost", to_first(view, peers));
  Finding named;  // by the lines themselves
  for (const WarningRecord* record : causes_first(view.book.warnings)) {
    if (record->rule->kind != RuleKind::victim || evidence.size() == 3) continue;
    if (evidence.empty() && peers.empty() && !record->rule->program.empty()) what = meaning_of(view, *record);
    evidence.push_back(quoted_warning(view, *record));
    if (record->rule->blame != RuleBlame::named) continue;
    named.ranks.assign(record->ranks.begin(), record->ranks.end());
    for (const std::string& host : record->hosts) add_once(named.hosts, host_at(view, host));
  }
  if (evidence.empty()) return;
  Finding finding = only_victims(view, what, peers, std::move(evidence), remedy("lost-nameless-peer"));
  finding.ranks = named.ranks;
  for (const std::string& host : named.hosts) add_once(finding.hosts, host);
  if (peers.size() == 1) add_once(finding.hosts, host_at(view, peers.front()));
  // Their words may say that a process failed, if nothing before them says how, or that it hung.
  const auto tells_end = [&](const WarningRecord& one) {
    const auto tells_more = [&](const ProgramNote& note) {
      const LineRule* rule = note.rule;
      return note.file == one.file && note.line < one.line && rule != nullptr &&
             (rule->kind == RuleKind::exception || (rule->kind == RuleKind::error && !rule->means.empty()));
    };
    const auto of_end = [](const LineRule* rule) { return rule->kind == RuleKind::ended; };
    return one.rule->kind == RuleKind::victim && !one.rule->program.empty() && !mentions(one.example, "imed out") &&
           std::ranges::any_of(builtin_line_rules().matches(one.example, RuleWhere::unexplained), of_end) &&
           std::ranges::none_of(view.book.program, tells_more);
  };
  const bool ended = std::ranges::any_of(view.book.warnings, tells_end);
  if (ended) finding.verdict = Verdict::process_dead;
  findings.emplace_back(std::move(finding), ended ? std::optional(Verdict::stuck_inside) : std::nullopt);
}

}  // namespace

void find_in_warnings(const LogView& view, Findings& findings) {
  const auto is_oom = [](const WarningRecord& one) { return mentions(one.rule->id, "-oom"); };  // such a peer is silent
  const bool any_oom = std::ranges::any_of(view.book.warnings, is_oom);
  for (const WarningRecord* one : causes_first(view.book.warnings)) {
    const WarningRecord& record = *one;
    if (is_unwanted(view, record) || (any_oom && record.rule->blame == RuleBlame::both_ends)) continue;
    const RuleKind kind = record.rule->kind;  // of a victim see find_silent_ranks
    if (kind == RuleKind::hardware) find_hardware(view, record, findings);
    if (kind == RuleKind::unreachable || kind == RuleKind::refused) find_unreachable(view, record, findings);
    if (kind == RuleKind::resource) findings.emplace_back(fault_of(view, record, Verdict::resource));
    if (kind == RuleKind::config) find_config(view, record, findings);
    if (kind == RuleKind::call_mismatch) findings.emplace_back(fault_of(view, record, Verdict::arg_mismatch));
    if (kind == RuleKind::size_mismatch) find_size_mismatch(view, record, findings);
    if (kind != RuleKind::fallout && kind != RuleKind::other) continue;
    Finding finding = finding_of(view, record, Verdict::unknown);
    if (kind == RuleKind::fallout) {
      if (record.sources.size() + record.ranks.size() == 1)
        finding.ranks = fault_of(view, record, Verdict::unknown).ranks;
      finding.missing.emplace_back(
          "what broke the GPU's context: the first CUDA error, dmesg (XID), the program's output");
    } else {
      finding.sentence =
          fmt::format("{}: a warning that busbar does not know: \"{}\"", writer_of(view, record), record.example);
      finding.next.push_back(remedy("unknown-warning"));
    }
    findings.emplace_back(std::move(finding));
  }
}

void find_silent_ranks(const LogView& view, Findings& findings) {
  // The first process that ends a finished job closes the connections of the others.
  if (cause_is_told(view) || view.book.facts.contains({"works", "the job finished"})) return;
  std::vector<std::uint32_t> victims = victims_of(view);
  const bool refused = victims.empty();
  if (refused) victims = refused_after_init(view);
  if (victims.empty()) {
    find_nameless_victims(view, findings);
    return;
  }
  const std::vector<std::string> named = peers_of(view, refused ? RuleKind::refused : RuleKind::victim);
  const std::vector<std::uint32_t> all_silent = silent_sources(view);
  std::vector<std::uint32_t> silent = on_named_hosts(view, all_silent, named);
  if (silent.empty()) silent = all_silent;
  std::erase_if(silent, [&](std::uint32_t source) { return view.lost.may_lack_end(source); });
  if (silent.size() > 1) silent = furthest_behind(view, silent);
  const std::string complaining = list_sources(view.rank_map, victims);
  std::vector<std::string> evidence{fmt::format("{} lost {}: \"{}\" and its like", complaining,
                                                victims.size() == 1 ? "a peer" : "peers",
                                                refused ? "connection refused" : "closed by remote peer")};
  for (const std::string& address : named) {
    if (evidence.size() < 4) evidence.push_back("named as the peer: " + name_peer(view, address));
  }
  // Silent ranks must be few compared with those that complain, or a log is merely cut.
  if (silent.empty() || silent.size() >= std::max<std::size_t>(victims.size(), 2)) {
    if (refused) return;  // find_unreachable names it
    findings.emplace_back(only_victims(view, fmt::format("{} lost a connection{}", complaining, to_first(view, named)),
                                       named, std::move(evidence), remedy("lost-peer")));
    return;
  }
  std::set<std::string> hosts;
  for (const std::uint32_t source : silent) hosts.insert(host_of(view.book, source));
  const auto on_these = [&](std::uint32_t source) { return hosts.contains(host_of(view.book, source)); };
  const bool whole_host = hosts.size() == 1 && silent.size() > 1 && view.rank_map.hosts.size() > 1 &&
                          ranks_that(view, on_these).size() == silent.size();
  const std::string who = list_sources(view.rank_map, silent);
  Finding finding = make_finding(Verdict::process_dead, "", std::move(evidence), {remedy("silent-rank")});
  if (whole_host) {
    finding.verdict = Verdict::host_unreachable;
    finding.sentence = fmt::format("all ranks of {} fell silent: {}", *hosts.begin(), who);
    blame_hosts(view, silent, finding);
  } else {
    finding.sentence = fmt::format("{} went away silently: {} without an error and without a clean end", who,
                                   silent.size() == 1 ? "its log ends" : "their logs end");
    blame(view, silent, finding);
  }
  findings.push_back(std::move(finding));
}

}  // namespace busbar
