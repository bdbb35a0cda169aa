#include "common/machine/resources.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

namespace busbar {
namespace {

struct Process {
  std::string name;
  std::string parent;
  std::set<int> cores;
};

/// `pid`: a number or "self".
std::optional<Process> read_process(const Probe& probe, const std::string& pid) {
  const std::optional<std::string> status = probe.read("/proc/" + pid + "/status");
  if (!status) return std::nullopt;
  const auto field = [&](std::string_view key) {
    const std::string_view value = field_of(*status, key).value_or("");
    return std::string(value.substr(0, value.find_first_of(" \t")));
  };
  return Process{field("Name"), field("PPid"), parse_cpu_list(field("Cpus_allowed_list"))};
}

bool is_launcher(const std::string& name) {
  // As the kernel cuts them, at 15 characters.
  static constexpr std::array kNames{"mpirun",          "mpirun.openmpi", "mpiexec",      "mpiexec.openmpi",
                                     "orterun",         "orted",          "prterun",      "prte",
                                     "prted",           "mpiexec.hydra",  "mpirun.mpich", "mpiexec.mpich",
                                     "hydra_pmi_proxy", "slurmstepd",     "flux-shell"};
  return contains(kNames, name);
}

/// The cores of the launcher's process above this one; empty if none is visible.
std::set<int> launcher_cores(const Probe& probe, std::string pid) {
  constexpr int kMaxAncestors = 16;
  for (int i = 0; i < kMaxAncestors; ++i) {
    const std::optional<Process> process = read_process(probe, pid);
    if (!process) return {};
    if (is_launcher(process->name)) return process->cores;
    pid = process->parent;
  }
  return {};
}

/// Cores of CPU time that the control groups grant; rounded down, because 2 busy-waiting ranks on 1.5 cores stall.
int quota_cores(const Probe& probe) {
  int least = std::numeric_limits<int>::max();
  const CgroupDirs groups = cgroup_dirs("cpu", probe);
  for (const std::string& dir : groups.dirs) {
    long long quota = -1, period = 0;
    if (groups.version == 2) {
      std::istringstream text(probe.read(dir + "/cpu.max").value_or("max"));
      if (!(text >> quota >> period)) continue;
    } else {
      quota = read_count(probe, dir + "/cpu.cfs_quota_us").value_or(-1);
      period = read_count(probe, dir + "/cpu.cfs_period_us").value_or(0);
    }
    if (quota > 0 && period > 0) least = std::min(least, static_cast<int>(std::min(quota / period, 1'000'000LL)));
  }
  return std::max(least, 1);
}

/// The cores that the control group allows; empty: all.
std::set<int> cpuset_cores(const Probe& probe) {
  const CgroupDirs groups = cgroup_dirs("cpuset", probe);
  for (const std::string& dir : groups.dirs) {
    for (const char* file : {"cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"}) {
      std::set<int> cores = parse_cpu_list(probe.read(dir + "/" + file).value_or(""));
      if (!cores.empty()) return cores;
    }
  }
  return {};
}

/// Quotas of a control group: version 2 counts microseconds, version 1 nanoseconds (cgroup-v2.rst, sched-bwc.rst).
double container_s(const Probe& probe) {
  double longest = 0;
  for (const std::string& dir : cgroup_dirs("cpu", probe).dirs) {
    const auto usec = read_value(probe, dir + "/cpu.stat", "throttled_usec");
    const auto nsec = read_value(probe, dir + "/cpu.stat", "throttled_time");
    longest =
        std::max({longest, static_cast<double>(usec.value_or(0)) / 1e6, static_cast<double>(nsec.value_or(0)) / 1e9});
  }
  return longest;
}

double heat_s(const Probe& probe) {
  double longest = 0;
  const std::string cpus = "/sys/devices/system/cpu/";
  for (const std::string& name : probe.list(cpus)) {
    if (!name.starts_with("cpu") || name.size() == 3 || std::isdigit(static_cast<unsigned char>(name[3])) == 0)
      continue;
    for (const char* file : {"core_throttle_total_time_ms", "package_throttle_total_time_ms"}) {
      const auto ms = read_count(probe, cpus + name + "/thermal_throttle/" + file);
      longest = std::max(longest, static_cast<double>(ms.value_or(0)) / 1e3);
    }
  }
  return longest;
}

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; }

struct Limit {
  long long bytes = 0;
  long long used = 0;
};

/// The limit and use of one control group. Inactive file pages do not count as used: the kernel drops them first.
std::optional<Limit> limit_of(const Probe& probe, const std::string& dir, int version) {
  const bool unified = version == 2;
  std::optional<long long> bytes = read_count(probe, dir + (unified ? "/memory.max" : "/memory.limit_in_bytes"));
  // Above memory.high a process is not killed but throttled until it barely runs: no room to measure in.
  if (const auto high = read_count(probe, dir + "/memory.high"); unified && high && (!bytes || *high < *bytes))
    bytes = high;
  const auto used = read_count(probe, dir + (unified ? "/memory.current" : "/memory.usage_in_bytes"));
  const auto cache = read_value(probe, dir + "/memory.stat", unified ? "inactive_file" : "total_inactive_file");
  constexpr long long kUnlimited = 1LL << 60;  // version 1 writes "no limit" as the largest multiple of a page
  if (!bytes || !used || *bytes >= kUnlimited) return std::nullopt;
  return Limit{*bytes, std::max(0LL, *used - cache.value_or(0))};
}

}  // namespace

std::set<int> parse_cpu_list(std::string_view text) {
  constexpr int kMost = 1 << 16;  // no kernel is built for more, and a recording may contain any number
  std::vector<std::pair<int, int>> ranges;
  for (const std::string_view part : split_text(text, ',')) {
    std::string_view rest;
    const std::optional<int> first = leading_number<int>(part, 10, &rest);
    const std::optional<int> last = rest.starts_with('-') ? number_of<int>(rest.substr(1)) : number_of<int>(part);
    if (!first || !last || *first < 0 || *last >= kMost) return {};
    ranges.emplace_back(*first, *last);
  }
  std::ranges::sort(ranges);
  std::set<int> cores;
  int next = 0;
  for (const auto& [first, last] : ranges)
    for (next = std::max(next, first); next <= last; ++next) cores.insert(cores.end(), next);
  return cores;
}

int job_cores(const Probe& probe) {
  const std::optional<Process> self = read_process(probe, "self");
  std::set<int> cores = self ? launcher_cores(probe, self->parent) : std::set<int>{};
  if (cores.empty()) cores = parse_cpu_list(probe.read("/sys/devices/system/cpu/online").value_or(""));
  if (self) cores.insert(self->cores.begin(), self->cores.end());
  if (const std::set<int> admitted = cpuset_cores(probe); !admitted.empty())
    std::erase_if(cores, [&](int core) { return !admitted.contains(core); });
  return std::max(1, std::min(static_cast<int>(cores.size()), quota_cores(probe)));
}

std::optional<HostCpu> host_cpu(const Probe& probe) {
  HostCpu cpu;
  bool found = false;
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  for (const std::string_view line : probe.lines("/proc/stat")) {
    if (!line.starts_with("cpu")) break;
    if (!line.starts_with("cpu ")) {
      ++cpu.cpus;
      continue;
    }
    // proc(5): user nice system idle iowait irq softirq steal guest guest_nice
    std::istringstream fields(std::string(line.substr(4)));
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
    found = static_cast<bool>(fields >> user >> nice >> system >> idle);
    fields >> iowait >> irq >> softirq >> steal;
    cpu.idle_s = (idle + iowait) * tick;
    cpu.interrupts_s = (irq + softirq) * tick;
    cpu.steal_s = steal * tick;
  }
  if (!found || cpu.cpus == 0) return std::nullopt;
  return cpu;
}

Throttling throttling(const Probe& probe) { return {container_s(probe), heat_s(probe)}; }

OwnCpu own_cpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_nivcsw};
}

HostMemory free_host_memory(const Probe& probe) {
  const auto available = kilobytes_of(probe.read("/proc/meminfo").value_or(""), "MemAvailable");
  if (!available) throw Error(ExitCode::internal, "no MemAvailable in /proc/meminfo");
  HostMemory memory{*available, "MemAvailable"};

  const CgroupDirs groups = cgroup_dirs("memory", probe);
  for (const std::string& dir : groups.dirs) {
    const std::optional<Limit> limit = limit_of(probe, dir, groups.version);
    if (!limit) continue;
    const auto left = static_cast<std::uint64_t>(std::max(0LL, limit->bytes - limit->used));
    if (left >= memory.free_bytes) continue;
    memory.free_bytes = left;
    constexpr double kGiB = 1 << 30;
    memory.source = fmt::format("cgroup limit {:.1f} GiB - {:.1f} GiB used", static_cast<double>(limit->bytes) / kGiB,
                                static_cast<double>(limit->used) / kGiB);
  }
  return memory;
}

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total_pages = 0;
  std::int64_t resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;  // Linux counts KiB
}

std::vector<CpuCache> data_caches(const Probe& probe) {
  std::vector<CpuCache> caches;
  for (int index = 0;; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}", index);
    const std::optional<long long> level = read_count(probe, folder + "/level");
    if (!level) return caches;
    // "2048K"; the kernel has no other unit.
    const std::string size = probe.read(folder + "/size").value_or("");
    std::string_view unit;
    const auto kib = leading_number<std::size_t>(size, 10, &unit);
    if (!kib || unit != "K" || probe.read(folder + "/type") == "Instruction") continue;
    const std::set<int> cpus = parse_cpu_list(probe.read(folder + "/shared_cpu_list").value_or(""));
    caches.push_back({static_cast<int>(*level), *kib << 10, std::max(1, static_cast<int>(cpus.size()))});
  }
}

}  // namespace busbar
