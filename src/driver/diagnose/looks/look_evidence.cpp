#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/kernel_log.h"
#include "common/watch/ras.h"
#include "common/watch/ras_answer.h"
#include "driver/diagnose/looks/look_checks.h"
#include "driver/rules/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace busbar {
namespace {

std::string address_of(const std::string& end) { return end.substr(0, end.rfind(':')); }

double rank_start_s(const HostLook& look) {
  double start_s = HUGE_VAL;
  for (const LookProcess& process : look.processes) {
    if (process.role == LookProcess::Role::rank && process.start_s > 0) start_s = std::min(start_s, process.start_s);
  }
  return start_s;
}

/// What is known of each host from all of them.
struct Together {
  std::map<std::string, std::string> hosts;  ///< by the addresses of their own sockets; empty: of several
  std::map<std::string, int> ports, active;  ///< hosts that have a port of that name, and on which it works
  double start_s = HUGE_VAL;                 ///< of the job, since the epoch

  explicit Together(const JobLook& looks) {
    for (const HostLook& look : looks.hosts) {
      start_s = std::min(start_s, rank_start_s(look));
      for (const LookPort& port : look.ports) {
        ++ports[port.name];
        if (is_active(port)) ++active[port.name];
      }
      for (const std::string& address : look.addresses) add(address, look.host);
      for (const LookProcess& process : look.processes) {
        for (const LookSocket& socket : process.sockets) {
          const std::string address = address_of(socket.local);
          if (!address.starts_with("127.") && address != "::1" && address != "0.0.0.0") add(address, look.host);
        }
      }
    }
  }

  /// A bridge for containers has the same address everywhere.
  void add(const std::string& address, const std::string& host) {
    std::string& known = hosts.try_emplace(address, host).first->second;
    if (known != host) known.clear();
  }

  static bool is_active(const LookPort& port) { return port.state.find("ACTIVE") != std::string::npos; }

  /// Whether a port that is down works on most other hosts that have it: else it is simply not used.
  bool is_used(const LookPort& port) const {
    return active.contains(port.name) && 3 * active.at(port.name) > 2 * (ports.at(port.name) - 1);
  }
};

/// Ways on which data were sent again and again without an acknowledgement.
std::vector<PeerProbe> probes_of(const HostLook& look, const Together& together) {
  std::vector<PeerProbe> probes;
  for (const LookProcess& process : look.processes) {
    for (const LookSocket& socket : process.sockets) {
      constexpr int kRetransmits = 3;
      const bool stalled = socket.state == "ESTABLISHED" && socket.unsent > 0 && socket.same_in_both &&
                           socket.retransmits >= kRetransmits;
      const auto known = together.hosts.find(address_of(socket.remote));
      if (!stalled || known == together.hosts.end() || known->second.empty() || known->second == look.host) continue;
      if (std::ranges::find(probes, known->second, &PeerProbe::host) == probes.end())
        probes.push_back({known->second, PeerProbe::Result::timed_out, true});
    }
  }
  return probes;
}

void add_ports(const HostLook& look, const Together& together, std::vector<Trouble>& troubles) {
  for (const LookPort& port : look.ports) {
    const bool rdma = port.name.find('/') != std::string::npos;
    if (rdma && !port.state.empty() && !Together::is_active(port) && together.is_used(port))
      troubles.push_back({Trouble::Kind::hardware, fmt::format("port {} is {}", port.name, port.state)});
  }
  for (const LookCounter& counter : look.counters) {
    if (counter.growth <= 0) continue;
    const bool down = counter.name.find("link_downed") != std::string::npos;
    troubles.push_back({down ? Trouble::Kind::hardware : Trouble::Kind::notice,
                        fmt::format("{} grew by {} between the looks", counter.name, counter.growth)});
  }
}

/// What the kernel wrote since the job began; on a host without ranks, since it began elsewhere: it may have lost them.
/// Before that, it stopped nobody here.
void add_kernel(const HostLook& look, const Together& together, std::vector<Trouble>& troubles) {
  const double here_s = rank_start_s(look);
  const double started_s = std::isfinite(here_s) ? here_s : together.start_s;
  for (const std::string& line : look.kernel_log) {
    const auto message = parse_kernel_line(line);
    if (!message) continue;
    const auto since_boot = leading_number<double>(trimmed(line.starts_with('[') ? line.substr(1) : ""));
    if (since_boot && look.boot_s > 0 && look.boot_s + *since_boot < started_s) continue;
    const KernelEvent& event = message->event;
    const bool by_program = event.what == KernelEvent::What::xid && xid_meaning(event.number).by_program;
    const auto kind =
        event.what == KernelEvent::What::out_of_memory || by_program ? Trouble::Kind::notice : Trouble::Kind::hardware;
    troubles.push_back({kind, "kernel: " + printable(event.text), false, event.what == KernelEvent::What::xid});
  }
}

std::vector<Trouble> troubles_of(const HostLook& look, const Together& together) {
  std::vector<Trouble> troubles;
  for (const LookGpu& gpu : look.gpus) {
    if (!gpu.problem.empty())
      troubles.push_back(
          {Trouble::Kind::hardware, fmt::format("GPU {} {}: {}", gpu.index, gpu.bus_id, gpu.problem), false, true});
  }
  add_kernel(look, together, troubles);
  add_ports(look, together, troubles);
  for (const LookGroup& group : look.groups) {
    if (group.oom_kills > 0)
      troubles.push_back({Trouble::Kind::notice, fmt::format("{} of {} killed for lack of memory (oom_kill)",
                                                             counted(group.oom_kills, "process"), group.path)});
    if (group.throttled_ms > 1000)
      troubles.push_back(
          {Trouble::Kind::notice,
           fmt::format("the CPU quota of {} stopped it for {} ms between the looks", group.path, group.throttled_ms),
           true});
  }
  if (!look.blocked.empty()) {
    const LookBlocked& first = look.blocked.front();
    troubles.push_back(
        {Trouble::Kind::notice,
         fmt::format("{} wait{} for the kernel (state D), {} in {}", counted(look.blocked.size(), "process"),
                     look.blocked.size() == 1 ? "s" : "", first.program, first.wchan)});
  }
  return troubles;
}

RankEvidence rank_evidence(const RankFacts& facts, int rank, int nranks) {
  const LookProcess& process = *facts.process;
  RankEvidence evidence;
  evidence.flight.rank = rank;
  evidence.flight.nprocs = nranks;
  evidence.flight.host = facts.host->host;
  evidence.flight.pid = process.pid;
  evidence.flight.command = process.command;
  constexpr double kStands = 60;
  evidence.flight.idle_s = facts.activity.moves ? 0 : kStands;
  evidence.process.state = process.state;
  evidence.process.wchan = process.wchan;
  evidence.process.tracer = process.tracer;
  evidence.process.life = process.state == 'X' ? ProcessState::Life::gone : ProcessState::Life::alive;
  evidence.activity = facts.activity;
  return evidence;
}

/// Whether the ranks meet at an address that no other host reaches.
bool is_alone(const LookEvidence& all) {
  return !all.ranks.empty() && std::ranges::all_of(all.ranks, [](const auto& one) {
    const std::string& master = one.second.process->master;
    return master.starts_with("127.") || master.starts_with("localhost");
  });
}

/// How many ranks a host has, by what the launcher set for one of them; 0: not known.
int ranks_per_host(const LookEvidence& all, int nranks) {
  for (const auto& [rank, facts] : all.ranks) {
    for (const std::string& setting : facts.process->environment) {
      for (const std::string_view name : {"LOCAL_WORLD_SIZE=", "OMPI_COMM_WORLD_LOCAL_SIZE=", "MPI_LOCALNRANKS="}) {
        if (setting.starts_with(name)) return number_of<int>(std::string_view(setting).substr(name.size())).value_or(0);
      }
    }
  }
  const int hosts = is_alone(all) ? 1 : all.looks->expected_hosts;
  return hosts > 0 ? (nranks - 1) / hosts + 1 : 0;
}

/// The host of every rank, also of those that were not found: next to others of it.
std::vector<std::string> places(const LookEvidence& all, int nranks) {
  // A number that somebody read costs nothing: a job of which so little was found has no places.
  const std::size_t most = 1024 + 64 * all.ranks.size();
  std::vector<std::string> hosts(
      nranks < 0 || static_cast<std::size_t>(nranks) > most ? 0 : static_cast<std::size_t>(nranks));
  std::map<int, std::string> first;  // the rank that is 0 on its host
  for (const auto& [rank, facts] : all.ranks) {
    if (!is_named(rank) || static_cast<std::size_t>(rank) >= hosts.size()) continue;
    hosts[static_cast<std::size_t>(rank)] = facts.host->host;
    const int local = facts.process->local_rank;
    if (local >= 0 && local <= rank) first.emplace(rank - local, facts.host->host);
  }
  const int per_host = ranks_per_host(all, nranks);
  const auto found = [](const std::string& host) { return !host.empty(); };
  for (auto gap = hosts.begin(); (gap = std::find(gap, hosts.end(), "")) != hosts.end();) {
    const auto next = std::find_if(gap, hosts.end(), found);
    const bool same = gap != hosts.begin() && next != hosts.end() && *std::prev(gap) == *next;
    if (same) std::fill(gap, next, *next);
    gap = next;
  }
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto above = first.upper_bound(static_cast<int>(rank));
    if (!hosts[rank].empty() || above == first.begin()) continue;
    const auto& [lowest, host] = *std::prev(above);
    if (static_cast<int>(rank) - lowest < per_host) hosts[rank] = host;
  }
  // What is left fits on the one host without ranks.
  const auto is_bare = [](const HostEvidence& host) { return host.ranks.empty(); };
  const auto bare = std::ranges::find_if(all.evidence.hosts, is_bare);
  if (std::ranges::count_if(all.evidence.hosts, is_bare) == 1 && std::ranges::count(hosts, "") <= per_host)
    std::ranges::replace(hosts, "", bare->host);
  return hosts;
}

/// Jobs of one host share RAS's port, and any of them may have answered.
bool is_of_others(const RasAnswer& answer, const LookEvidence& all) {
  std::set<std::int64_t> reported;
  for (const RasAnswer::Communicator& one : answer.communicators) {
    for (const auto& [rank, pid] : one.pids) reported.insert(pid);
  }
  return !reported.empty() && std::ranges::none_of(all.ranks, [&](const auto& one) {
    return reported.contains(one.second.process->inner_pid) || reported.contains(one.second.process->pid);
  });
}

void add_ras(const JobLook& looks, LookEvidence& all) {
  std::set<std::string> known;
  const auto parsed = [](const std::string& text) {
    return text.starts_with('{') ? parse_ras_json(text) : parse_ras_text(text);
  };
  for (const HostLook& look : looks.hosts) {
    const auto& [why_not, first, second] = look.ras;
    const std::string& text = second.empty() ? first : second;
    if (text.empty() ? why_not.empty() : !known.insert(text).second) continue;
    const RasAnswer answer = parsed(text);
    const bool others = is_of_others(answer, all);
    RasEvidence& ras = all.evidence.ras.emplace_back();
    if (!text.empty() && !others) ras = read_ras(text, second.empty() ? "" : first);
    if (text.empty()) ras.why_not = why_not;
    if (others) ras.why_not = "another job's processes answered";
    ras.host = look.host;
    const bool twice = !others && !first.empty() && !second.empty();
    all.counts_moved = all.counts_moved || (twice && answer.launched > parsed(first).launched);
  }
}

/// "srun on node2: Communication connection failure; it was reached over ssh": not a full table of steps, or a prolog.
bool is_off_by(const std::string& line, const std::string& host) {
  const std::string place = "srun on " + host;
  if (!line.starts_with(place + ":") && !line.starts_with(place + ".")) return false;
  return has_any(lower_case(line), {"communication", "connect", "timed out", "not responding", "no route"});
}

/// "node3: down* (Not responding)", "llm-1: Failed (Evicted)".
bool is_down_by(const std::string& line, const std::string& host) {
  if (!line.starts_with(host + ":")) return false;
  return has_any(lower_case(line.substr(host.size())), {"down", "notready", "not responding", "failed", "unknown"});
}

/// Hosts that no look came from. The command's own way there proves little: a key may be missing.
void add_silent(const JobLook& looks, LookEvidence& all) {
  for (const LookSilence& silent : looks.silent) {
    HostEvidence& host = all.evidence.hosts.emplace_back();
    host.host = silent.host;
    host.why_not = silent.why;
    const bool is_down =
        std::ranges::any_of(looks.scheduler, [&](const auto& line) { return is_down_by(line, silent.host); });
    host.ever_reached = silent.kind == LookSilence::Kind::unreachable || is_down;
    host.silence = host.ever_reached ? Silence::no_route : Silence::no_answer;
    if (is_down) host.why_not += "; the scheduler calls it down";
  }
}

/// With records the watchdog's judge knows all that the watchdog itself would. One that could not be read would make
/// its rank look as if it had not started: then all are seen as other programs' ranks are.
void add_flights(const JobLook& looks, HangEvidence& evidence) {
  std::map<int, FlightState> flights = flights_in(looks);
  for (const HostEvidence& host : evidence.hosts) {
    const auto has_none = [&](const RankEvidence& rank) { return !flights.contains(rank.flight.rank); };
    if (std::ranges::any_of(host.ranks, has_none)) return;
  }
  for (HostEvidence& host : evidence.hosts) {
    for (RankEvidence& rank : host.ranks) {
      FlightState& flight = flights.at(rank.flight.rank);
      const double idle_s = evidence.occasion == HangEvidence::Occasion::files ? evidence.idle_s : HUGE_VAL;
      evidence.occasion = HangEvidence::Occasion::files;
      evidence.idle_s = std::min(idle_s, flight.idle_s);
      evidence.limit_s = std::max(evidence.limit_s, flight.limit_s);
      rank.flight = std::move(flight);
      rank.activity.reset();
    }
  }
}

}  // namespace

LookEvidence evidence_of_looks(const JobLook& looks) {
  LookEvidence all;
  all.looks = &looks;
  all.whole =
      looks.silent.empty() && looks.expected_hosts > 0 && static_cast<int>(looks.hosts.size()) >= looks.expected_hosts;
  HangEvidence& evidence = all.evidence;
  evidence.occasion = HangEvidence::Occasion::looks;
  evidence.jobid = looks.how;
  const Together together(looks);
  ActivityFinder finder;
  int unnamed = kFirstUnnamed, nranks = 0;
  for (const HostLook& look : looks.hosts) {
    HostEvidence& host = evidence.hosts.emplace_back();
    host.host = look.host;
    host.reached = true;
    for (const std::string& line : looks.scheduler) {
      if (is_off_by(line, look.host)) host.why_not = line;
    }
    host.troubles = troubles_of(look, together);
    host.probes = probes_of(look, together);
    for (const LookLog& log : look.logs) all.logs_grow = all.logs_grow || log.growth > 0;
    for (RankFacts& facts : rank_facts(look, finder)) {
      int rank = facts.process->rank;
      if (rank < 0 || !is_named(rank) || all.ranks.contains(rank)) rank = unnamed++;
      nranks = std::max(nranks, std::min(facts.process->nranks, kFirstUnnamed));
      all.ranks.emplace(rank, std::move(facts));
    }
  }
  add_silent(looks, all);
  for (const auto& [rank, facts] : all.ranks) {
    const auto host = std::ranges::find(evidence.hosts, facts.host->host, &HostEvidence::host);
    host->ranks.push_back(rank_evidence(facts, rank, nranks));
  }
  add_flights(looks, evidence);
  evidence.nprocs = nranks;
  evidence.host_of_rank = places(all, nranks);
  all.fits = static_cast<std::int64_t>(looks.hosts.size()) * ranks_per_host(all, nranks) >= nranks;
  if (looks.expected_hosts == 0)
    all.whole = looks.silent.empty() && (static_cast<int>(all.ranks.size()) >= nranks || is_alone(all) || all.fits);
  add_ras(looks, all);
  all.recorded = diagnose_dumps(looks);
  all.logged = diagnose_logs(looks);
  return all;
}

}  // namespace busbar
