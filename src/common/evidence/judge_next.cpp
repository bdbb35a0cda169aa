#include "common/evidence/job_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace busbar {
namespace {

/// Names come from files and from the network, and these commands are copied into a shell.
std::string safe_host(const std::string& host) {
  const bool safe = !host.empty() && host.front() != '-' && std::ranges::all_of(host, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  });
  return safe ? host : "HOST";
}

/// The command as the reader types it: without ssh if there is one host.
std::string on(const JobSnapshot& snapshot, const std::string& host, const std::string& command) {
  if (snapshot.evidence->hosts.size() <= 1) return command;
  return fmt::format("ssh {} '{}'", safe_host(host), command);
}

struct Target {
  std::string host;
  std::int64_t pid = 0;  ///< 0: none in particular
  bool gone = false;     ///< only what it left can be examined
};

/// The first blamed rank, else the lowest rank with a record.
Target target_of(const JobSnapshot& snapshot, const Symptom& symptom) {
  const auto of = [&](const SeenRank& seen) {
    const bool files = snapshot.evidence->occasion == HangEvidence::Occasion::files;
    const bool gone = seen.process.life == ProcessState::Life::gone || (files && seen.flight->ending != Ending::none);
    return Target{seen.host->host, seen.flight->pid, gone};
  };
  for (int rank : symptom.ranks)
    if (const SeenRank* seen = snapshot.find(rank)) return of(*seen);
  if (!symptom.hosts.empty()) return {*symptom.hosts.begin()};
  if (!snapshot.ranks.empty()) return of(snapshot.ranks.front());
  return {};
}

/// When a command helps: always, if a GPU is blamed, if a process is known, if that process can be examined, if the
/// host's network works but no process there answers.
enum class When : std::uint8_t { always, gpu, known, process, unresponsive };

/// A command for the blamed host; {} is the process.
struct Advice {
  Verdict verdict;
  When when;
  std::string_view command;
};

constexpr std::string_view kPs = "ps -o pid,stat,wchan:20,etime,cmd -p {}";
constexpr std::string_view kPsAll = "ps -eo pid,stat,wchan:20,etime,cmd | head -50";
constexpr std::string_view kGentleStacks = "py-spy dump --nonblocking --pid {}";  // does not stop it
constexpr std::string_view kStacks = "gdb -p {} -batch -ex \"thread apply all bt\"";

constexpr Advice kAdvice[] = {
    {Verdict::hw_fault, When::always, "dmesg -T | grep -iE \"xid|aer|mlx5|link\" | tail"},
    {Verdict::hw_fault, When::always, "ip -s link"},
    {Verdict::hw_fault, When::gpu, "nvidia-smi -q -d ECC,PERFORMANCE,PAGE_RETIREMENT"},
    {Verdict::host_unreachable, When::unresponsive, kPsAll},
    {Verdict::host_unreachable, When::unresponsive, "top -b -n 1 | head -20; dmesg -T | tail"},
    {Verdict::process_dead, When::always, "dmesg -T | tail -50"},
    {Verdict::process_dead, When::known, "coredumpctl list {}"},
    {Verdict::process_stopped, When::process, kPs},
    {Verdict::process_stopped, When::process, "kill -CONT {}"},
    {Verdict::process_stopped, When::always, "dmesg -T | tail"},
    {Verdict::resource, When::always, "df -h /dev/shm; ls -lS /dev/shm | head; free -g; ulimit -a"},
    {Verdict::config, When::always, "env | grep -E \"^(NCCL|OMPI|UCX)_\""},
    {Verdict::init_not_joined, When::always, kPsAll},
    {Verdict::init_stuck, When::process, kStacks},
    {Verdict::init_stuck, When::always, "ip -br addr; ss -tnp | head -50"},
    {Verdict::arg_mismatch, When::process, kStacks},
    {Verdict::order_mismatch, When::process, kStacks},
    {Verdict::slow_not_hung, When::always, "top -b -n 1 | head -20"},
    {Verdict::slow_not_hung, When::always, "ip -s link"},
    {Verdict::rank_lagging, When::process, kPs},
    {Verdict::rank_lagging, When::process, kStacks},
    {Verdict::rank_lagging, When::always, "top -b -n 1 | head -20; dmesg -T | tail"},
    {Verdict::stuck_inside, When::process, kStacks},
    {Verdict::stuck_inside, When::always, "ip -s link; dmesg -T | tail"},
    {Verdict::unknown, When::process, kStacks},
    {Verdict::unknown, When::always, "ip -s link; dmesg -T | tail"},
};

/// Whether the network of all these hosts works, but no process there answers.
bool are_unresponsive(const JobSnapshot& snapshot, const std::set<std::string>& hosts) {
  const auto unresponsive = std::ranges::count_if(snapshot.unreached, [&](const HostEvidence* host) {
    return is_unresponsive(*host) && hosts.contains(host->host);
  });
  return unresponsive > 0 && static_cast<std::size_t>(unresponsive) == hosts.size();
}

/// From both ends if two hosts are blamed, else towards the one.
void add_network(const JobSnapshot& snapshot, const Symptom& symptom, std::vector<std::string>& next) {
  if (symptom.hosts.empty()) return;
  const std::string& a = *symptom.hosts.begin();
  const std::string& b = *symptom.hosts.rbegin();
  const bool pair = symptom.hosts.size() == 2;
  const bool mtu = symptom.about_mtu;
  const auto probe = [&](const std::string& to) {
    return mtu ? fmt::format("tracepath -n {}", safe_host(to)) : fmt::format("ping -c 3 {}", safe_host(to));
  };
  if (pair) {
    next.push_back(on(snapshot, a, probe(b)));
    next.push_back(on(snapshot, b, probe(a)));
  } else {
    next.push_back(probe(a));
  }
  for (const std::string* host : {&a, &b}) {
    next.push_back(on(snapshot, *host, mtu ? "ip link | grep mtu" : "ip -s link; ip route; dmesg -T | tail"));
    if (!pair) break;
  }
}

}  // namespace

std::vector<std::string> next_commands(const JobSnapshot& snapshot, const Symptom& symptom) {
  std::vector<std::string> next;
  const Target target = target_of(snapshot, symptom);
  const auto is = [&](Verdict verdict) { return symptom.verdict == verdict; };
  const bool unresponsive = !symptom.about_mtu && are_unresponsive(snapshot, symptom.hosts), known = target.pid > 0;
  const bool mismatch = is(Verdict::arg_mismatch) || is(Verdict::order_mismatch);
  const bool process = known && !target.gone && !(mismatch && died_of_mismatch(snapshot));
  if (is(Verdict::host_unreachable) && !unresponsive) add_network(snapshot, symptom, next);
  if (is(Verdict::init_stuck)) next.emplace_back("run it again with NCCL_DEBUG=INFO, then: busbar diagnose LOGS");
  const bool foreign = snapshot.evidence->occasion == HangEvidence::Occasion::looks;
  if (mismatch && !foreign)
    next.emplace_back("run it again with --paranoid: it compares the arguments before each call");
  if (is(Verdict::unknown) && !snapshot.walled.empty())
    next.push_back(on(snapshot, snapshot.walled.front()->host, "nft list ruleset; iptables -S; ss -tnp | head -50"));
  const bool terminated = snapshot.evidence->occasion == HangEvidence::Occasion::terminated;
  if (is(Verdict::unknown) && (terminated || (known && target.gone))) {
    next.emplace_back("read the output of the launcher and the scheduler: it says who ended the job");
  } else if (!target.host.empty()) {
    const bool helps[] = {true, symptom.about_gpu, known, process, unresponsive};  // in the order of When
    for (const Advice& advice : kAdvice) {
      if (!is(advice.verdict) || !helps[static_cast<int>(advice.when)]) continue;
      const std::string_view command = foreign && advice.command == kStacks ? kGentleStacks : advice.command;
      next.push_back(on(snapshot, target.host, fmt::format(fmt::runtime(command), target.pid)));
    }
  }
  if (!snapshot.unheard.empty() && !is(Verdict::ok) && !foreign)
    next.emplace_back("run on each host that did not answer: busbar diagnose --flight /dev/shm");
  return next;
}

}  // namespace busbar
