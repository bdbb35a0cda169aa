#include "common/watch/judge_scene.h"

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

/// The command as typed where the reader sits: on one host, no ssh.
std::string on(const Scene& scene, const std::string& host, const std::string& command) {
  if (scene.evidence->hosts.size() <= 1) return command;
  return fmt::format("ssh {} '{}'", safe_host(host), command);
}

struct Target {
  std::string host;
  std::int64_t pid = 0;  ///< 0: none in particular
  bool gone = false;     ///< so that only what it left can be looked at
};

/// The first to blame, else the lowest rank there is.
Target target_of(const Scene& scene, const Ruling& ruling) {
  const auto of = [&](const SeenRank& seen) {
    const bool files = scene.evidence->occasion == HangEvidence::Occasion::files;
    const bool gone = seen.process.life == ProcessState::Life::gone || (files && seen.flight->ending != Ending::none);
    return Target{seen.host->host, seen.flight->pid, gone};
  };
  for (int rank : ruling.ranks) {
    if (const SeenRank* seen = scene.find(rank)) return of(*seen);
  }
  if (!ruling.hosts.empty()) return {*ruling.hosts.begin()};
  if (!scene.ranks.empty()) return of(scene.ranks.front());
  return {};
}

std::string ps(const Target& target) { return fmt::format("ps -o pid,stat,wchan:20,etime,cmd -p {}", target.pid); }
std::string stacks(const Target& target) {
  return fmt::format("gdb -p {} -batch -ex \"thread apply all bt\"", target.pid);
}

/// Whether the network of all these hosts works, only no process there speaks.
bool are_mute(const Scene& scene, const std::set<std::string>& hosts) {
  const auto mute = std::ranges::count_if(
      scene.unreached, [&](const HostEvidence* host) { return is_mute(*host) && hosts.contains(host->host); });
  return mute > 0 && static_cast<std::size_t>(mute) == hosts.size();
}

/// From both ends where two are to blame, else towards the one.
void add_network(const Scene& scene, const Ruling& ruling, std::vector<std::string>& next) {
  if (ruling.hosts.empty()) return;
  const std::string& a = *ruling.hosts.begin();
  const std::string& b = *ruling.hosts.rbegin();
  const bool pair = ruling.hosts.size() == 2;
  const bool mtu = ruling.about_mtu;
  const auto probe = [&](const std::string& to) {
    return mtu ? fmt::format("tracepath -n {}", safe_host(to)) : fmt::format("ping -c 3 {}", safe_host(to));
  };
  if (pair) {
    next.push_back(on(scene, a, probe(b)));
    next.push_back(on(scene, b, probe(a)));
  } else {
    next.push_back(probe(a));
  }
  for (const std::string* host : {&a, &b}) {
    next.push_back(on(scene, *host, mtu ? "ip link | grep mtu" : "ip -s link; ip route; dmesg -T | tail"));
    if (!pair) break;
  }
}

}  // namespace

std::vector<std::string> next_commands(const Scene& scene, const Ruling& ruling) {
  std::vector<std::string> next;
  const Target target = target_of(scene, ruling);
  const auto there = [&](const std::string& command) {
    if (!target.host.empty()) next.push_back(on(scene, target.host, command));
  };
  const bool known = target.pid > 0, process = known && !target.gone;
  switch (ruling.verdict) {
    case Verdict::hw_fault:
      there("dmesg -T | grep -iE \"xid|aer|mlx5|link\" | tail");
      there("ip -s link");
      if (ruling.about_gpu) there("nvidia-smi -q -d ECC,PERFORMANCE,PAGE_RETIREMENT");
      break;
    case Verdict::host_unreachable:
      if (are_mute(scene, ruling.hosts)) {
        there("ps -eo pid,stat,wchan:20,etime,cmd | head -50");
        there("top -b -n 1 | head -20; dmesg -T | tail");
      } else {
        add_network(scene, ruling, next);
      }
      break;
    case Verdict::process_dead:
      there("dmesg -T | tail -50");
      if (known) there(fmt::format("coredumpctl list {}", target.pid));
      break;
    case Verdict::process_stopped:
      if (process) {
        there(ps(target));
        there(fmt::format("kill -CONT {}", target.pid));
      }
      there("dmesg -T | tail");
      break;
    case Verdict::resource:
      there("df -h /dev/shm; ls -lS /dev/shm | head; free -g; ulimit -a");
      break;
    case Verdict::config:
      there("env | grep -E \"^(NCCL|OMPI|UCX)_\"");
      break;
    case Verdict::init_not_joined:
      there("ps -eo pid,stat,wchan:20,etime,cmd | head -50");
      break;
    case Verdict::init_stuck:
      next.emplace_back("run it again with NCCL_DEBUG=INFO, then: busbar diagnose LOGS");
      if (process) there(stacks(target));
      there("ip -br addr; ss -tnp | head -50");
      break;
    case Verdict::arg_mismatch:
    case Verdict::order_mismatch:
      next.emplace_back("run it again with --paranoid: it compares the arguments before each call");
      if (process && !died_of_mismatch(scene)) there(stacks(target));
      break;
    case Verdict::slow_not_hung:
      there("top -b -n 1 | head -20");
      there("ip -s link");
      break;
    case Verdict::rank_lagging:
      if (process) {
        there(ps(target));
        there(stacks(target));
      }
      there("top -b -n 1 | head -20; dmesg -T | tail");
      break;
    case Verdict::unknown:
      if (!scene.walled.empty()) {
        next.push_back(on(scene, scene.walled.front()->host, "nft list ruleset; iptables -S; ss -tnp | head -50"));
      }
      if (scene.evidence->occasion == HangEvidence::Occasion::terminated || (known && target.gone)) {
        next.emplace_back("the launcher's and the scheduler's output say who ended it");
        break;
      }
      [[fallthrough]];
    case Verdict::stuck_inside:
      if (process) there(stacks(target));
      there("ip -s link; dmesg -T | tail");
      break;
    case Verdict::ok:
      break;
  }
  if (!scene.unheard.empty() && ruling.verdict != Verdict::ok) {
    next.emplace_back("on each host that did not answer: busbar diagnose --flight /dev/shm");
  }
  return next;
}

}  // namespace busbar
