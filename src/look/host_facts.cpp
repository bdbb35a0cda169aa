#include "look/host_facts.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/cgroup.h"
#include "common/machine/error_counters.h"
#include "common/machine/kernel_log.h"
#include "common/machine/machine_facts.h"
#include "common/machine/network.h"
#include "look/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kMostKernelLines = 200;

std::int64_t number_in(const Probe& probe, const std::string& path) {
  return number_of<std::int64_t>(probe.read(path).value_or("")).value_or(-1);
}

std::int64_t grown(std::int64_t earlier, std::int64_t later) {
  return earlier < 0 || later < 0 ? -1 : std::max<std::int64_t>(0, later - earlier);
}

/// Each of `later` with the one of the same key before, if there was one.
template <class Item, class Key, class Use>
void each_pair(const std::vector<Item>& earlier, std::vector<Item>& later, Key key, Use use) {
  std::map<std::string, const Item*> before;
  for (const Item& item : earlier) before[item.*key] = &item;
  for (Item& item : later) {
    const auto found = before.find(item.*key);
    use(found == before.end() ? nullptr : found->second, item);
  }
}

}  // namespace

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
      const std::int64_t words = number_in(probe, fmt::format("{}/counters/{}", port.path, name));
      return words < 0 ? -1 : words * kLane;
    };
    ports.push_back(
        {fmt::format("{}/{}", port.device, port.port), port.state, data("port_rcv_data"), data("port_xmit_data")});
  }
  return ports;
}

std::vector<LookPort> port_growth(const std::vector<LookPort>& earlier, std::vector<LookPort> later) {
  each_pair(earlier, later, &LookPort::name, [](const LookPort* before, LookPort& now) {
    now.bytes_in = before == nullptr ? -1 : grown(before->bytes_in, now.bytes_in);
    now.bytes_out = before == nullptr ? -1 : grown(before->bytes_out, now.bytes_out);
  });
  return later;
}

std::vector<LookCounter> read_host_counters(const Probe& probe) {
  std::vector<LookCounter> counters;
  for (const auto& [name, value] : error_counters(probe)) {
    if (name != kKernelSequence) counters.push_back({name, static_cast<std::int64_t>(value), 0});
  }
  return counters;
}

std::vector<LookCounter> counter_growth(const std::vector<LookCounter>& earlier, std::vector<LookCounter> later) {
  each_pair(earlier, later, &LookCounter::name, [](const LookCounter* before, LookCounter& now) {
    now.growth = before == nullptr ? 0 : std::max<std::int64_t>(0, now.value - before->value);
  });
  std::erase_if(later, [](const LookCounter& counter) { return counter.value == 0; });
  return later;
}

namespace {

/// cgroup-v2.rst and memory.rst (v1); -1: not known, or no limit.
LookGroup read_group(const Probe& probe, const std::string& folder, int version) {
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;  // version 1 writes a number near 2^63
  LookGroup group;
  group.path = folder;
  group.limit = number_in(probe, folder + (version == 2 ? "/memory.max" : "/memory.limit_in_bytes"));
  if (group.limit > kNoLimit) group.limit = -1;
  group.used = number_in(probe, folder + (version == 2 ? "/memory.current" : "/memory.usage_in_bytes"));
  const auto kills = read_value(probe, folder + (version == 2 ? "/memory.events" : "/memory.oom_control"), "oom_kill");
  group.oom_kills = kills.value_or(-1);
  return group;
}

}  // namespace

std::vector<LookGroup> read_groups(const Probe& probe, const std::vector<std::int64_t>& pids) {
  std::set<std::string> seen;
  std::vector<LookGroup> groups;
  for (const std::int64_t pid : pids) {
    const std::string process = std::to_string(pid);
    const CgroupDirs memory = cgroup_dirs("memory", probe, process);
    for (const std::string& folder : memory.dirs) {
      if (!seen.insert(folder).second) continue;
      LookGroup group = read_group(probe, folder, memory.version);
      if (group.limit >= 0 || group.oom_kills > 0) groups.push_back(std::move(group));
    }
    const CgroupDirs cpu = cgroup_dirs("cpu", probe, process);
    for (const std::string& folder : cpu.dirs) {
      const bool v2 = cpu.version == 2;
      const auto throttled = read_value(probe, folder + "/cpu.stat", v2 ? "throttled_usec" : "throttled_time");
      if (!throttled || *throttled <= 0 || !seen.insert("cpu " + folder).second) continue;
      const auto found = std::ranges::find(groups, folder, &LookGroup::path);
      LookGroup& group = found != groups.end() ? *found : groups.emplace_back();
      group.path = folder;
      group.throttled_ms = *throttled / (v2 ? 1000 : 1000000);
    }
  }
  return groups;
}

std::vector<LookGroup> group_growth(const std::vector<LookGroup>& earlier, std::vector<LookGroup> later) {
  each_pair(earlier, later, &LookGroup::path, [](const LookGroup* before, LookGroup& now) {
    now.oom_kills_growth = before == nullptr ? 0 : std::max<std::int64_t>(0, now.oom_kills - before->oom_kills);
    now.throttled_ms = before == nullptr ? -1 : grown(before->throttled_ms, now.throttled_ms);
  });
  return later;
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
    const bool trouble = parse_kernel_line(text) || std::ranges::any_of(kParts, [&](std::string_view part) {
                           return line.text.find(part) != std::string::npos;
                         });
    if (trouble) found.push_back(masked(text));
  }
  if (found.size() > kMostKernelLines) {
    found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(kMostKernelLines));
  }
  return found;
}

namespace {

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
    const bool served = kind.starts_with("fuse") || std::ranges::find(kServed, kind) != kServed.end();
    if (served || !only_served) points.emplace_back(words[4]);
  }
  std::ranges::sort(points, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return points;
}

bool is_below(std::string_view mount, std::string_view path) {
  return mount == "/" ? path.starts_with('/')
                      : path.starts_with(mount) && (path.size() == mount.size() || path[mount.size()] == '/');
}

}  // namespace

std::vector<std::string> served_mounts(const Probe& probe) { return mounts_of(probe, true); }

bool is_on(const std::vector<std::string>& mounts, std::string_view path) {
  return std::ranges::any_of(mounts, [&](const std::string& mount) { return is_below(mount, path); });
}

bool waits_for_files(const LookProcess& process) {
  constexpr auto kParts = std::to_array<std::string_view>({"request_wait_answer", "fuse_", "nfs", "rpc_wait", "ptlrpc",
                                                           "cl_sync_io", "ldlm_", "ceph_", "cifs_", "folio_wait",
                                                           "io_schedule", "wait_on_page", "jbd2_", "xfs_"});
  const auto is_stuck = [&](char state, std::string_view wchan) {
    return state == 'D' ||
           (state == 'S' && std::ranges::any_of(kParts, [&](auto part) { return wchan.find(part) != kNotFound; }));
  };
  return is_stuck(process.state, process.wchan) ||
         std::ranges::any_of(process.threads, [&](const LookThread& t) { return is_stuck(t.state, t.wchan); });
}

LookBlocked blocked_process(const Probe& probe, const LookProcess& process, const std::vector<std::string>& served) {
  LookBlocked blocked{process.pid, process.program, process.wchan, {}};
  const std::string folder = fmt::format("/proc/{}", process.pid);
  std::vector<std::string> paths{probe.link_text(folder + "/cwd").value_or("")};
  for (const std::string& fd : probe.list(folder + "/fd")) {
    paths.push_back(probe.link_text(folder + "/fd/" + fd).value_or(""));
  }
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
