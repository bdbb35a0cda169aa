#include "common/machine/memory.h"

#include "common/base/error.h"
#include "common/base/text.h"
#include "common/machine/cores.h"
#include "common/machine/machine_facts.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>

namespace busbar {
namespace {

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
