#include "common/machine/machine_facts.h"
#include "driver/doctor/host_parts.h"
#include "driver/doctor/make_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

namespace busbar {
namespace {

constexpr const char* kCpus = "/sys/devices/system/cpu";

void check_model(const Probe& probe, Rows& rows) {
  const std::string text = probe.read("/proc/cpuinfo").value_or("");
  auto model = field_of(text, "model name");
  if (!model) model = field_of(text, "CPU part");  // ARM gives a number instead of a name
  rows.push_back(equal_row("host.cpu", "",
                           fmt::format("{} x {}, {} NUMA node{}", online_cpus(probe), model.value_or("unknown"),
                                       numa_nodes(probe), numa_nodes(probe) == 1 ? "" : "s"),
                           Outcome::warn, "nodes of another kind, another BIOS setting (SMT, NPS) or CPUs offline?"));
}

void check_governor(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.governor";
  std::map<std::string, int> governors;
  for (const std::string& name : probe.list(kCpus)) {
    if (!name.starts_with("cpu") || name.find_first_not_of("0123456789", 3) != std::string::npos) continue;
    if (auto governor = probe.read(fmt::format("{}/{}/cpufreq/scaling_governor", kCpus, name))) ++governors[*governor];
  }
  if (governors.empty()) return rows.push_back(skip_row(kCheck, "", "clock rates are not set here (no cpufreq)"));
  std::vector<std::string> names;
  for (const auto& [name, count] : governors)
    names.push_back(governors.size() == 1 ? name : fmt::format("{} ({})", name, count));
  const std::string value = fmt::format("{}", fmt::join(names, ", "));
  if (governors.size() == 1 && governors.contains("performance")) return rows.push_back(ok_row(kCheck, "", value));
  rows.push_back(bad_row(Outcome::warn, kCheck, "", value, "CPUs may clock down between messages: latency varies",
                         "cpupower frequency-set -g performance (as root)"));
}

void check_numa_balancing(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.numa_balancing";
  const auto value = read_count(probe, "/proc/sys/kernel/numa_balancing");
  if (!value) return rows.push_back(ok_row(kCheck, "", "not in this kernel"));
  if (*value == 0 || numa_nodes(probe) == 1) {
    return rows.push_back(ok_row(kCheck, "", *value == 0 ? "off" : "on, but there is one NUMA node"));
  }
  rows.push_back(bad_row(Outcome::warn, kCheck, "", "on", "the kernel moves pages between NUMA nodes under the ranks",
                         "sysctl kernel.numa_balancing=0 (as root)"));
}

void check_huge_pages(const Probe& probe, Rows& rows) {
  const std::string text = probe.read("/sys/kernel/mm/transparent_hugepage/enabled").value_or("");
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return;
  rows.push_back(equal_row("host.huge_pages", "", text.substr(begin + 1, end - begin - 1), Outcome::warn,
                           "set transparent_hugepage= alike on all nodes"));
}

void check_clock_source(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.clocksource";
  // Those that are read without entering the kernel.
  constexpr std::array<std::string_view, 4> kFast = {"tsc", "arch_sys_counter", "kvm-clock",
                                                     "hyperv_clocksource_tsc_page"};
  const auto source = probe.read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (!source) return rows.push_back(skip_row(kCheck, "", "the kernel does not tell"));
  DoctorRow row = equal_row(kCheck, "", *source, Outcome::warn, "the kernel log says why a node gave up its tsc");
  if (std::find(kFast.begin(), kFast.end(), *source) == kFast.end()) {
    row.outcome = Outcome::warn;
    row.reason = "reading this clock is slow, which every timed message pays";
    row.remedy = "the kernel log says why tsc was given up (unstable?); often a BIOS update helps";
  }
  rows.push_back(std::move(row));
}

void check_load(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.load";
  const std::string text = probe.read("/proc/loadavg").value_or("");
  double load = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), load).ec != std::errc()) {
    return rows.push_back(skip_row(kCheck, "", "/proc/loadavg does not tell"));
  }
  const int cpus = online_cpus(probe);
  const std::string value = fmt::format("{:.1f} on {} CPUs", load, cpus);
  if (load < 2 || load <= cpus / 2.0) return rows.push_back(ok_row(kCheck, "", value));
  rows.push_back(bad_row(Outcome::warn, kCheck, "", value,
                         "more than half of the CPUs were busy over the last minute: another job, or ours just before?",
                         "top; measure when it is gone"));
}

}  // namespace

void check_cpus(const Probe& probe, Rows& rows) {
  check_model(probe, rows);
  check_governor(probe, rows);
  check_numa_balancing(probe, rows);
  check_huge_pages(probe, rows);
  check_clock_source(probe, rows);
  check_load(probe, rows);
}

}  // namespace busbar
