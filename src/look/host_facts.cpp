#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/error_counters.h"
#include "common/machine/job_interface.h"
#include "common/machine/kernel_log.h"
#include "common/machine/machine_facts.h"
#include "common/machine/network.h"
#include "look/look_parts.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <map>
#include <set>

namespace busbar {
namespace {

constexpr std::ptrdiff_t kMostKernelLines = 200;

/// Totals of each of `later` as growth since the one of the same key; -1 if there was none.
template <class Item, class... Number>
void grow_each(const std::vector<Item>& earlier, std::vector<Item>& later, std::string Item::*key,
               Number Item::*... totals) {
  std::map<std::string, const Item*> before;
  for (const Item& item : earlier) before[item.*key] = &item;
  for (Item& item : later) {
    const auto found = before.find(item.*key);
    if (found != before.end()) grow(*found->second, item, totals...);
    if (found == before.end()) ((item.*totals = -1), ...);
  }
}

/// Whether processes of several jobs may be below a group: what was killed there says nothing of this one.
bool is_shared(std::string_view folder) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"slurm", "kubepods", "guaranteed", "burstable", "besteffort", "docker", "system", "user", "machine"});
  const std::string_view name = folder.substr(folder.rfind('/') + 1);
  return (name.ends_with(".slice") && name.find("-pod") == kNotFound) || name.ends_with("slurmstepd.scope") ||
         name.starts_with("uid_") || contains(kNames, name);
}

/// cgroup-v2.rst, memory.rst and sched-bwc.rst (v1); -1: not known, or no limit.
void read_group(const Probe& probe, bool v2, bool cpu, LookGroup& group) {
  if (cpu) {
    const auto throttled = read_value(probe, group.path + "/cpu.stat", v2 ? "throttled_usec" : "throttled_time");
    if (throttled) group.throttled_ms = *throttled / (v2 ? 1000 : 1000000);
    return;
  }
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;  // version 1 writes a number near 2^63
  group.limit = read_count(probe, group.path + (v2 ? "/memory.max" : "/memory.limit_in_bytes")).value_or(-1);
  if (group.limit > kNoLimit) group.limit = -1;
  group.used = read_count(probe, group.path + (v2 ? "/memory.current" : "/memory.usage_in_bytes")).value_or(-1);
  const std::string events = group.path + (v2 ? "/memory.events" : "/memory.oom_control");
  if (!is_shared(group.path)) group.oom_kills = read_value(probe, events, "oom_kill").value_or(-1);
  group.oom_kills_growth = group.oom_kills;
}

/// "\040" is a space: the kernel writes those, tabs, newlines and backslashes as octal numbers (proc(5)).
std::string without_octal(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(std::min(i + 1, text.size()), 3);
    if (text[i] != '\\' || digits.size() < 3 || digits.find_first_not_of("01234567") != kNotFound) {
      plain += text[i];
      continue;
    }
    plain += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'));
    i += 3;
  }
  return plain;
}

/// Mount points as /proc/PID/mountinfo has them; of file systems that a server or a program serves, or of all.
std::vector<std::string> mounts_of(const Probe& probe, bool only_served) {
  constexpr auto kServed = std::to_array<std::string_view>({"nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "9p",
                                                            "beegfs", "gpfs", "afs", "virtiofs", "wekafs", "panfs",
                                                            "ocfs2", "gfs2", "orangefs", "pvfs2", "glusterfs"});
  std::vector<std::string> points;
  for (const std::string& line : probe.lines("/proc/self/mountinfo")) {
    const auto words = words_of(line);
    const auto dash = std::ranges::find(words, std::string_view("-"));
    if (dash - words.begin() < 5 || words.end() - dash < 2) continue;
    const std::string_view kind = dash[1];
    const bool served = kind.starts_with("fuse") || contains(kServed, kind);
    if (served || !only_served) points.push_back(without_octal(words[4]));
  }
  std::ranges::sort(points, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return points;
}

bool is_below(std::string_view mount, std::string_view path) {
  return mount == "/" ? path.starts_with('/')
                      : path.starts_with(mount) && (path.size() == mount.size() || path[mount.size()] == '/');
}

}  // namespace

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

HostLook this_host(const Probe& probe) {
  HostLook look;
  const std::string name = full_host_name();
  look.host = name.substr(0, name.find('.', 1));
  utsname system{};
  if (uname(&system) == 0) look.kernel = fmt::format("{} {}", system.release, system.machine);
  look.boot_id = probe.read("/proc/sys/kernel/random/boot_id").value_or("");
  look.net_namespace = namespace_of(probe, "/proc/self", "net");
  for (const InterfaceAddress& one : interface_addresses())
    if (one.up && !one.loopback && !is_for_containers(one.name)) add_once(look.addresses, one.ip);
  timespec since_boot{};
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  look.time_s = now_s();
  look.boot_s = look.time_s - static_cast<double>(since_boot.tv_sec) - 1e-9 * static_cast<double>(since_boot.tv_nsec);
  return look;
}

std::vector<LookPort> read_ports(const Probe& probe) {
  std::vector<LookPort> ports;
  for (const NetInterface& net : net_interfaces(probe)) {
    if (net.name == "lo" || is_for_containers(net.name)) continue;
    const std::string state = net.path.empty() ? "" : probe.read(net.path + "/operstate").value_or("");
    ports.push_back(
        {net.name, state, static_cast<std::int64_t>(net.rx_bytes), static_cast<std::int64_t>(net.tx_bytes)});
  }
  for (const RdmaPort& port : rdma_ports(probe)) {
    const auto data = [&](const char* name) {
      constexpr std::int64_t kLane = 4;  // port_xmit_data counts words
      const std::int64_t words = read_count(probe, fmt::format("{}/counters/{}", port.path, name)).value_or(-1);
      return words < 0 ? -1 : words * kLane;
    };
    ports.push_back(
        {fmt::format("{}/{}", port.device, port.port), port.state, data("port_rcv_data"), data("port_xmit_data")});
  }
  return ports;
}

std::vector<LookCounter> read_host_counters(const Probe& probe) {
  std::vector<LookCounter> counters;
  for (const auto& [name, value] : error_counters(probe)) {
    const auto total = static_cast<std::int64_t>(value);
    if (name != kKernelSequence) counters.push_back({name, total, total});
  }
  return counters;
}

std::vector<LookGroup> read_groups(const Probe& probe, const std::vector<std::int64_t>& pids) {
  std::set<std::string> seen;
  std::vector<LookGroup> groups;
  for (const std::int64_t pid : pids) {
    for (const std::string controller : {"memory", "cpu"}) {
      const CgroupDirs found = cgroup_dirs(controller, probe, std::to_string(pid));
      for (const std::string& folder : found.dirs) {
        if (!seen.insert(controller + folder).second) continue;
        auto group = std::ranges::find(groups, folder, &LookGroup::path);
        if (group == groups.end()) group = groups.insert(group, {folder});
        read_group(probe, found.version == 2, controller == "cpu", *group);
      }
    }
  }
  return groups;
}

void host_growth(const HostLook& earlier, HostLook& later) {
  grow_each(earlier.ports, later.ports, &LookPort::name, &LookPort::bytes_in, &LookPort::bytes_out);
  grow_each(earlier.counters, later.counters, &LookCounter::name, &LookCounter::growth);
  std::erase_if(later.counters, [](const LookCounter& counter) { return counter.value == 0; });
  grow_each(earlier.groups, later.groups, &LookGroup::path, &LookGroup::oom_kills_growth, &LookGroup::throttled_ms);
  std::erase_if(later.groups, [](const LookGroup& group) {
    return group.limit < 0 && group.oom_kills <= 0 && group.throttled_ms <= 0;
  });
  for (LookGpu& gpu : later.gpus) {
    const auto found = std::ranges::find(earlier.gpus, gpu.index, &LookGpu::index);
    if (found == earlier.gpus.end()) continue;
    gpu.busy_percent_before = found->busy_percent;
    gpu.memory_percent_before = found->memory_percent;
    gpu.power_w_before = found->power_w;
  }
}

std::vector<std::string> kernel_troubles(const Probe& probe) {
  constexpr auto kParts = std::to_array<std::string_view>(
      {"blocked for more than", "not responding", "LustreError", "I/O error", "soft lockup", "hung_task",
       "EXT4-fs error", "XFS", "Hardware Error", "mlx5_core", "fuse:", "ceph:", "rcu_sched detected"});
  std::vector<std::string> found;
  const std::vector<KernelLine> log = kernel_lines(0, probe.root);
  if (log.empty()) throw_not_possible("/dev/kmsg may not be read");
  for (const KernelLine& line : log) {
    const std::string text = fmt::format("[{:.6f}] {}", line.since_boot_s, line.text);
    if (parse_kernel_line(text) || has_any(line.text, kParts)) found.push_back(masked(text));
  }
  found.erase(found.begin(), found.end() - std::min(std::ssize(found), kMostKernelLines));
  return found;
}

std::vector<std::string> served_mounts(const Probe& probe) { return mounts_of(probe, true); }

bool is_on(const std::vector<std::string>& mounts, std::string_view path) {
  return std::ranges::any_of(mounts, [&](const std::string& mount) { return is_below(mount, path); });
}

bool waits_for_files(const LookProcess& process) {
  constexpr auto kParts = std::to_array<std::string_view>({"request_wait_answer", "fuse_", "nfs", "rpc_wait", "ptlrpc",
                                                           "cl_sync_io", "ldlm_", "ceph_", "cifs_", "folio_wait",
                                                           "io_schedule", "wait_on_page", "jbd2_", "xfs_"});
  const auto is_stuck = [&](const auto& one) {
    return one.state == 'D' || (one.state == 'S' && has_any(one.wchan, kParts));
  };
  return is_stuck(process) || std::ranges::any_of(process.threads, is_stuck);
}

LookBlocked blocked_process(const Probe& probe, const LookProcess& process, const std::vector<std::string>& served) {
  LookBlocked blocked{process.pid, process.program, process.wchan, {}};
  const std::string folder = fmt::format("/proc/{}", process.pid);
  std::vector<std::string> paths{probe.link_text(folder + "/cwd").value_or("")};
  for (const std::string& fd : probe.list(folder + "/fd"))
    paths.push_back(probe.link_text(folder + "/fd/" + fd).value_or(""));
  for (const std::vector<std::string>& mounts : {served, mounts_of(probe, false)}) {
    for (const std::string& path : paths) {
      const auto at = std::ranges::find_if(mounts, [&](const std::string& mount) { return is_below(mount, path); });
      if (at != mounts.end() && !contains(blocked.mounts, *at)) blocked.mounts.push_back(*at);
    }
    if (!blocked.mounts.empty()) break;
  }
  return blocked;
}

}  // namespace busbar
