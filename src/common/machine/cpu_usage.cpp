#include "common/machine/cpu_usage.h"

#include "common/machine/cgroup.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>
#include <string>

namespace busbar {
namespace {

namespace fs = std::filesystem;

/// Quotas of a control group: version 2 counts microseconds, version 1 nanoseconds (cgroup-v2.rst, sched-bwc.rst).
double container_s(const fs::path& root) {
  double longest = 0;
  const CgroupDirs groups = cgroup_dirs("cpu", root);
  for (const fs::path& dir : groups.dirs) {
    const auto usec = read_value(dir / "cpu.stat", "throttled_usec");
    const auto nsec = read_value(dir / "cpu.stat", "throttled_time");
    longest =
        std::max({longest, static_cast<double>(usec.value_or(0)) / 1e6, static_cast<double>(nsec.value_or(0)) / 1e9});
  }
  return longest;
}

double heat_s(const fs::path& root) {
  double longest = 0;
  std::error_code missing;
  for (const fs::directory_entry& cpu : fs::directory_iterator(root / "sys/devices/system/cpu", missing)) {
    const std::string name = cpu.path().filename().string();
    if (!name.starts_with("cpu") || name.size() == 3 || std::isdigit(static_cast<unsigned char>(name[3])) == 0)
      continue;
    for (const char* file : {"core_throttle_total_time_ms", "package_throttle_total_time_ms"}) {
      const auto ms = read_number(cpu.path() / "thermal_throttle" / file);
      longest = std::max(longest, static_cast<double>(ms.value_or(0)) / 1e3);
    }
  }
  return longest;
}

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; }

}  // namespace

std::optional<HostCpu> host_cpu(const fs::path& root) {
  std::ifstream in(root / "proc/stat");
  HostCpu cpu;
  bool found = false;
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  for (std::string line; std::getline(in, line) && line.starts_with("cpu");) {
    if (!line.starts_with("cpu ")) {
      ++cpu.cpus;
      continue;
    }
    // proc(5): user nice system idle iowait irq softirq steal guest guest_nice
    std::istringstream fields(line.substr(4));
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

Throttling throttling(const fs::path& root) { return {container_s(root), heat_s(root)}; }

OwnCpu own_cpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_nivcsw};
}

}  // namespace busbar
