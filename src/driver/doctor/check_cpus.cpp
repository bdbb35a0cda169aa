#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>

namespace busbar {
namespace {

constexpr int kCapSysNice = 23;  // linux/capability.h

bool in_container(const Probe& probe) {
  if (probe.exists("/.dockerenv") || probe.exists("/run/.containerenv")) return true;
  return probe.environment.contains("SINGULARITY_CONTAINER") || probe.environment.contains("APPTAINER_CONTAINER") ||
         probe.environment.contains("container");
}

bool sys_is_read_only(const Probe& probe) {
  for (const std::string_view line : probe.lines("/proc/self/mounts")) {
    const auto words = words_of(line);
    if (words.size() > 3 && words[1] == "/sys") return words[3] == "ro" || words[3].starts_with("ro,");
  }
  return false;
}

void check_container(const Probe& probe, const CheckRows& check) {
  if (!in_container(probe)) return check.ok("none");
  const bool nice = has_capability(probe, kCapSysNice);
  const std::string value =
      fmt::format("yes{}{}", nice ? "" : ", without CAP_SYS_NICE", sys_is_read_only(probe) ? ", /sys read-only" : "");
  check.warn_unless(nice || !has_gpus(probe), value, "no-sys-nice");
}

/// PCI functions whose traffic matters: GPUs and RDMA devices.
std::vector<PciFunction> busy_functions(const Probe& probe) {
  std::vector<PciFunction> found = gpu_functions(probe);
  for (const std::string& device : probe.list("/sys/class/infiniband")) {
    if (auto function = pci_function_of(probe, "/sys/class/infiniband/" + device))
      found.push_back(std::move(*function));
  }
  return found;
}

void check_iommu(const Probe& probe, const std::vector<PciFunction>& functions, const CheckRows& check) {
  std::set<std::string> translating;
  bool known = false;
  for (const PciFunction& function : functions) {
    const auto type = probe.read(function.path + "/iommu_group/type");
    known = known || type;
    // "identity" is the pass-through of iommu=pt; "DMA" and "DMA-FQ" translate every access.
    if (type && type->starts_with("DMA")) translating.insert(function.address);
  }
  const bool present = !probe.list("/sys/class/iommu").empty();
  if (!known && present) {
    // If the kernel does not show the group's type, its command line does.
    const std::string words = " " + probe.read("/proc/cmdline").value_or("") + " ";
    const bool through =
        words.find(" iommu=pt ") != std::string::npos || words.find(" iommu.passthrough=1 ") != std::string::npos;
    if (!through) translating.insert("by /proc/cmdline");
  }
  if (!present && !known) return check.ok("off");
  if (translating.empty()) return check.ok("pass-through");
  check.warn(fmt::format("translates ({} devices)", translating.size()), "iommu-translates");
}

/// PCI Express base specification 7.7.11: the extended capability 0x000D, control register at +6, bit 2 "P2P request
/// redirect". Nothing if the configuration space is cut (without root it is 64 bytes) or has no such capability.
std::optional<bool> redirects_peers(const std::string& config) {
  const auto word_at = [&](std::size_t at, std::size_t nbytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < nbytes; ++i)
      value |= std::uint32_t{static_cast<unsigned char>(config[at + i])} << (8 * i);
    return value;
  };
  std::size_t at = 0x100;
  for (int i = 0; i < 64 && at >= 0x100 && at + 8 <= config.size(); ++i) {
    const std::uint32_t header = word_at(at, 4);
    if ((header & 0xffff) == 0x000d) return (word_at(at + 6, 2) & 0x4) != 0;
    at = header >> 20;
  }
  return std::nullopt;
}

void check_acs(const Probe& probe, const std::vector<PciFunction>& functions, const CheckRows& check) {
  std::set<std::string> bridges;
  for (const PciFunction& function : functions) {
    for (std::size_t end = function.path.rfind('/'); end != std::string::npos && end > 0;
         end = function.path.rfind('/', end - 1)) {
      const std::string bridge = function.path.substr(0, end);
      if (!probe.exists(bridge + "/vendor")) break;
      bridges.insert(bridge);
    }
  }
  if (bridges.empty()) return check.ok("no bridges above GPUs and network cards");
  std::set<std::string> redirecting;
  std::size_t readable = 0;
  for (const std::string& bridge : bridges) {
    const std::string config = probe.read(bridge + "/config").value_or("");
    readable += config.size() > 0x100 ? 1 : 0;
    if (redirects_peers(config).value_or(false)) redirecting.insert(bridge.substr(bridge.rfind('/') + 1));
  }
  if (readable == 0) {
    return check.skip(
        "only root may read the bridges' configuration: run busbar doctor --local "
        "as root once, or look with lspci -vvv");
  }
  if (redirecting.empty()) return check.ok("off");
  check.warn(fmt::format("redirects on {} bridges", redirecting.size()), "acs-redirects");
}

void check_isolation(const Probe& probe, Rows& rows) {
  check_container(probe, {rows, "host.container"});
  const std::vector<PciFunction> functions = busy_functions(probe);
  if (functions.empty()) {
    CheckRows(rows, "host.iommu").skip("no GPU and no RDMA device for which it would matter");
    return;
  }
  check_iommu(probe, functions, {rows, "host.iommu"});
  check_acs(probe, functions, {rows, "host.acs"});
}

constexpr const char* kCpus = "/sys/devices/system/cpu";

void check_model(const Probe& probe, Rows& rows) {
  const std::string text = probe.read("/proc/cpuinfo").value_or("");
  auto model = field_of(text, "model name");
  if (!model) model = field_of(text, "CPU part");  // ARM gives a number instead of a name
  CheckRows(rows, "host.cpu")
      .agree(fmt::format("{} x {}, {} NUMA node{}", online_cpus(probe), model.value_or("unknown"), numa_nodes(probe),
                         numa_nodes(probe) == 1 ? "" : "s"),
             Outcome::warn, "same-cpus");
}

void check_governor(const Probe& probe, const CheckRows& check) {
  std::map<std::string, int> governors;
  for (const std::string& name : probe.list(kCpus)) {
    if (!name.starts_with("cpu") || name.find_first_not_of("0123456789", 3) != std::string::npos) continue;
    if (auto governor = probe.read(fmt::format("{}/{}/cpufreq/scaling_governor", kCpus, name))) ++governors[*governor];
  }
  if (governors.empty()) return check.skip("clock rates are not set here (no cpufreq)");
  std::vector<std::string> names;
  for (const auto& [name, count] : governors)
    names.push_back(governors.size() == 1 ? name : fmt::format("{} ({})", name, count));
  check.warn_unless(governors.size() == 1 && governors.contains("performance"), joined_words(names, ", "),
                    "clocks-down");
}

void check_numa_balancing(const Probe& probe, const CheckRows& check) {
  const auto value = read_count(probe, "/proc/sys/kernel/numa_balancing");
  if (!value) return check.ok("not in this kernel");
  if (*value == 0) return check.ok("off");
  if (numa_nodes(probe) == 1) return check.ok("on, but there is one NUMA node");
  check.warn("on", "numa-balancing");
}

void check_huge_pages(const Probe& probe, Rows& rows) {
  const std::string text = probe.read("/sys/kernel/mm/transparent_hugepage/enabled").value_or("");
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return;
  CheckRows(rows, "host.huge_pages").agree(text.substr(begin + 1, end - begin - 1), Outcome::warn, "same-huge-pages");
}

void check_clock_source(const Probe& probe, const CheckRows& check) {
  // Those that are read without entering the kernel.
  constexpr std::array<std::string_view, 4> kFast = {"tsc", "arch_sys_counter", "kvm-clock",
                                                     "hyperv_clocksource_tsc_page"};
  const auto source = probe.read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (!source) return check.skip("the kernel does not say");
  DoctorRow& row = check.agree(*source, Outcome::warn, "same-clock");
  if (!contains(kFast, *source)) mark_bad(row, Outcome::warn, "slow-clock");
}

void check_load(const Probe& probe, const CheckRows& check) {
  const std::string text = probe.read("/proc/loadavg").value_or("");
  const std::optional<double> load = leading_number<double>(text);
  if (!load) return check.skip("/proc/loadavg does not say");
  const int cpus = online_cpus(probe);
  check.warn_unless(*load < 2 || *load <= cpus / 2.0, fmt::format("{:.1f} on {} CPUs", *load, cpus), "busy-cpus");
}

}  // namespace

void check_cpus(const Probe& probe, Rows& rows) {
  check_model(probe, rows);
  check_governor(probe, {rows, "host.governor"});
  check_numa_balancing(probe, {rows, "host.numa_balancing"});
  check_huge_pages(probe, rows);
  check_clock_source(probe, {rows, "host.clocksource"});
  check_load(probe, {rows, "host.load"});
  check_isolation(probe, rows);
}

}  // namespace busbar
