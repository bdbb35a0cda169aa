#include "common/machine/kernel_log.h"
#include "common/machine/xid_table.h"
#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace busbar {
namespace {

Finding finding_of(const LogView& view, const KernelGroup& group) {
  const std::string host = group.host.empty() ? "a host" : group.host;
  const std::string device = group.device.empty() ? "a device" : group.device;
  Finding finding;
  finding.evidence.push_back(fmt::format("kernel of {}{}: {}", host,
                                         group.times > 1 ? fmt::format(" ({} times)", group.times) : "", group.text));
  switch (group.what) {
    case KernelEvent::What::xid: {
      const XidMeaning& meaning = xid_meaning(group.number);
      // What a program did wrong must not take a healthy GPU out of service.
      finding.verdict = is_hardware_xid(group.number) ? Verdict::hw_fault : Verdict::unknown;
      finding.sentence = fmt::format("GPU {} of {} reported XID {}: {}", device, host, group.number, meaning.meaning);
      finding.next.emplace_back(meaning.advice);
      break;
    }
    case KernelEvent::What::aer:
      finding.verdict = Verdict::hw_fault;
      finding.sentence = fmt::format("PCIe error that was not corrected on {} of {}", device, host);
      finding.next.emplace_back("lspci -vvv of that device (UESta), its slot, riser and firmware");
      break;
    case KernelEvent::What::link_down:
      finding.verdict = Verdict::hw_fault;
      finding.sentence = fmt::format("the network link {} of {} went down", device, host);
      finding.next.emplace_back("ip -s link; ibstat; cable, transceiver and switch port");
      break;
    case KernelEvent::What::out_of_memory:
      finding.verdict = Verdict::resource;
      finding.sentence = fmt::format("the kernel of {} killed {} for lack of memory", host,
                                     group.device.empty() ? "a process" : group.device);
      finding.next.emplace_back("the job's memory limit (cgroup), data loaders' workers, /dev/shm's use");
      break;
  }
  std::vector<std::uint32_t> there;
  for (const std::uint32_t actor : view.rank_map.rank_actors) {
    if (!group.host.empty() && host_of(view.book, actor) == group.host) there.push_back(actor);
  }
  if (!there.empty()) {
    finding.evidence.push_back(fmt::format("on {}: {}", group.host, list_actors(view.rank_map, there)));
  }
  return finding;
}

}  // namespace

void find_in_kernel(const LogView& view, Findings& findings) {
  for (const KernelGroup& group : view.book.kernel) findings.push_back(finding_of(view, group));
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
  return fmt::format("{}: \"{}\"{}", view.rank_map.name_of[record.actor], record.example, times);
}

/// "rank 4 (kolyoz2, pid 25146): InfiniBand completion error 4: local protection error".
std::string meaning_of(const LogView& view, const WarningRecord& record) {
  const std::string what = record.rule->meaning.empty() ? record.example : std::string(record.rule->meaning);
  return fmt::format("{}: {}", list_actors(view.rank_map, record.actors), what);
}

Finding finding_of(const LogView& view, const WarningRecord& record, Verdict verdict) {
  Finding finding;
  finding.verdict = verdict;
  finding.sentence = meaning_of(view, record);
  finding.evidence.push_back(quoted_warning(view, record));
  if (!record.rule->advice.empty()) finding.next.emplace_back(record.rule->advice);
  return finding;
}

/// The peers named in warnings of a kind.
std::vector<std::string> peers_of(const LogView& view, WarningKind kind) {
  std::vector<std::string> peers;
  for (const auto& [peer, times] : view.book.named_peers) {
    if (peer.first == kind) peers.push_back(name_peer(view.rank_map, peer.second));
  }
  return peers;
}

void find_unreachable(const LogView& view, const WarningRecord& record, Findings& findings) {
  Finding finding = finding_of(view, record, Verdict::host_unreachable);
  const std::vector<std::string> peers = peers_of(view, WarningKind::unreachable);
  if (!peers.empty()) {
    finding.sentence = fmt::format("{}{} cannot be reached by {}", peers.front(),
                                   peers.size() > 1 ? fmt::format(" and {} more", peers.size() - 1) : "",
                                   list_actors(view.rank_map, record.actors));
  }
  findings.push_back(std::move(finding));
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

void find_in_warnings(const LogView& view, Findings& findings) {
  for (const WarningRecord* one : causes_first(view.book.warnings)) {
    const WarningRecord& record = *one;
    switch (record.rule->kind) {
      case WarningKind::hardware: {
        Finding finding = finding_of(view, record, Verdict::hw_fault);
        for (const std::string& peer : peers_of(view, WarningKind::hardware)) {
          if (finding.evidence.size() < 3) finding.evidence.push_back("the peer of that connection: " + peer);
        }
        findings.push_back(std::move(finding));
        break;
      }
      case WarningKind::unreachable:
        find_unreachable(view, record, findings);
        break;
      case WarningKind::resource:
        findings.push_back(finding_of(view, record, Verdict::resource));
        break;
      case WarningKind::config:
        findings.push_back(finding_of(view, record, Verdict::config));
        break;
      case WarningKind::call_mismatch:
        findings.push_back(finding_of(view, record, Verdict::arg_mismatch));
        break;
      case WarningKind::size_mismatch:
        find_size_mismatch(view, record, findings);
        break;
      case WarningKind::fallout: {
        Finding finding = finding_of(view, record, Verdict::unknown);
        finding.missing.emplace_back(
            "what broke the GPU's context: the first CUDA error, dmesg (XID), the program's output");
        findings.push_back(std::move(finding));
        break;
      }
      case WarningKind::victim:  // find_silent_ranks
      case WarningKind::harmless:
      case WarningKind::other:
        break;
    }
  }
}

namespace {

void find_in_ras(const LogView& view, Findings& findings) {
  for (const RasEvidence& ras : view.ras) {
    if (!ras.answered) continue;
    Finding finding;
    for (const std::string& line : ras.lines) finding.evidence.push_back("RAS: " + line);
    if (!ras.dead_pids.empty()) {
      std::string pids;
      for (const std::int64_t pid : ras.dead_pids) pids += fmt::format("{}{}", pids.empty() ? "" : ", ", pid);
      finding.verdict = Verdict::process_dead;
      finding.sentence = fmt::format("NCCL's RAS lost process{} {}", ras.dead_pids.size() == 1 ? "" : "es", pids);
      std::vector<std::uint32_t> known;
      for (const std::uint32_t actor : view.rank_map.rank_actors) {
        const std::int64_t pid = view.book.processes[view.book.actors[actor].process].pid;
        if (std::ranges::count(ras.dead_pids, pid) > 0) known.push_back(actor);
      }
      if (!known.empty()) finding.sentence += ": " + list_actors(view.rank_map, known);
      finding.next.emplace_back("dmesg and the launcher's output on the host of that process");
      findings.push_back(std::move(finding));
    } else if (!ras.lagging_ranks.empty()) {
      finding.verdict = Verdict::rank_lagging;
      finding.sentence =
          fmt::format("NCCL's RAS says that {} launched fewer operations", list_ranks(ras.lagging_ranks));
      finding.next.emplace_back("py-spy dump --pid of those ranks: what keeps them from the next call");
      findings.push_back(std::move(finding));
    }
  }
}

}  // namespace

void find_lost_processes(const LogView& view, Findings& findings) {
  for (const LauncherMessage& message : view.book.launcher) {
    Finding finding;
    finding.verdict = message.host_lost ? Verdict::host_unreachable : Verdict::process_dead;
    finding.sentence = "the launcher says: " + message.text;
    finding.evidence.push_back(message.text);
    finding.next.emplace_back("dmesg on that host (killed for memory, XID), core dumps, the process's own last lines");
    findings.push_back(std::move(finding));
  }
  find_in_ras(view, findings);
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

bool same_host(const std::string& host, const std::string& named) {
  return !host.empty() && (named == host || named.starts_with(host + "."));
}

/// Those of `actors` on a host that complaints about lost peers name; these peers are added to `named`.
std::vector<std::uint32_t> on_named_hosts(const LogView& view, std::vector<std::uint32_t> actors,
                                          std::vector<std::string>& named) {
  for (const auto& [peer, times] : view.book.named_peers) {
    if (peer.first == WarningKind::victim) named.push_back(peer.second);
  }
  std::set<std::string> hosts;
  for (const std::string& address : named) {
    const auto known = view.rank_map.host_of_address.find(address);
    hosts.insert(known != view.rank_map.host_of_address.end() ? known->second : address);
  }
  std::erase_if(actors, [&](std::uint32_t actor) {
    return std::ranges::none_of(hosts,
                                [&](const std::string& host) { return same_host(host_of(view.book, actor), host); });
  });
  return actors;
}

/// Those that stopped first, where calls show it; else all of `actors`.
std::vector<std::uint32_t> furthest_behind(const LogView& view, const std::vector<std::uint32_t>& actors) {
  for (std::size_t i = 0; i < view.comms.size(); ++i) {
    if (!view.lags[i]) continue;
    std::vector<std::uint32_t> behind;
    for (const std::uint32_t actor : actors_of(view.alignments[i], view.lags[i]->behind)) {
      if (std::ranges::count(actors, actor) > 0) behind.push_back(actor);
    }
    if (!behind.empty()) return behind;
  }
  return actors;
}

/// Whether some line says what went wrong: a rank that fell silent then is one more victim.
bool cause_is_told(const LogView& view) {
  const auto tells = [](const WarningRecord& record) {
    return record.rule->kind != WarningKind::victim && record.rule->kind != WarningKind::harmless &&
           record.rule->kind != WarningKind::other;
  };
  return !view.book.kernel.empty() || std::ranges::any_of(view.book.warnings.records(), tells);
}

}  // namespace

void find_silent_ranks(const LogView& view, Findings& findings) {
  if (cause_is_told(view)) return;
  const std::vector<std::uint32_t> victims = victims_of(view);
  if (victims.empty()) return;
  std::vector<std::string> named;
  const std::vector<std::uint32_t> all_silent = silent_actors(view);
  std::vector<std::uint32_t> silent = on_named_hosts(view, all_silent, named);
  const bool host_known = !silent.empty();
  if (!host_known) silent = all_silent;
  if (silent.size() > 1) silent = furthest_behind(view, silent);
  Finding finding;
  finding.evidence.push_back(fmt::format("{} lost {}: \"closed by remote peer\" and its like",
                                         list_actors(view.rank_map, victims),
                                         victims.size() == 1 ? "a peer" : "peers"));
  for (const std::string& address : named) {
    if (finding.evidence.size() < 4)
      finding.evidence.push_back("named as the peer: " + name_peer(view.rank_map, address));
  }
  // Silent ranks must be few against those that complain, or a log is merely cut.
  if (silent.empty() || silent.size() >= std::max<std::size_t>(victims.size(), 2)) {
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
  finding.next.emplace_back("dmesg (killed for memory, XID), core dumps and the launcher's output on that host");
  findings.push_back(std::move(finding));
}

}  // namespace busbar
