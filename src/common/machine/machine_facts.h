#pragma once

#include "common/machine/probe.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// Facts about a machine that several checks need. Pure in the probe.

/// A function on the PCI bus.
struct PciFunction {
  std::string address;  ///< "0000:18:00.0"
  std::string path;     ///< with all links followed: "/sys/devices/pci0000:15/0000:15:01.0/..."
  int numa_node = -1;   ///< -1: the firmware does not report it
  std::string local_cpus;
};

/// NVIDIA's GPUs on the bus, ordered by address. Needs no driver, so it can tell a host without GPUs from one with a
/// dead driver; empty if the bus is not visible.
std::vector<PciFunction> gpu_functions(const Probe& probe);

/// Their addresses ("0000:18:00.0").
std::vector<std::string> gpus_on_bus(const Probe& probe = {});

/// The PCI function of `folder`/device; nullopt for virtual devices.
std::optional<PciFunction> pci_function_of(const Probe& probe, const std::string& folder);

/// How two functions reach each other, in NCCL's and nvidia-smi's terms, the nearest first.
enum class PciPath : std::uint8_t {
  pix,  ///< one switch, or less
  pxb,  ///< several switches
  phb,  ///< through the CPU of one NUMA node
  sys,  ///< from one NUMA node to another
};

constexpr std::string_view name(PciPath path) {
  constexpr std::string_view kNames[] = {"PIX", "PXB", "PHB", "SYS"};
  return kNames[static_cast<int>(path)];
}

/// From their places in sysfs' tree of devices. Pure.
PciPath pci_path(const PciFunction& a, const PciFunction& b);

/// Whether the node has hardware for which limits and memory matter; on other nodes few of them are worth a report.
bool has_gpus(const Probe& probe);
bool has_rdma(const Probe& probe);

/// The number at the start of a file's text ("4" of "4: ACTIVE"); nullopt if there is none.
std::optional<long long> read_count(const Probe& probe, const std::string& path);

/// NUMA nodes that have memory or CPUs; at least 1.
int numa_nodes(const Probe& probe);

/// Online CPUs; at least 1.
int online_cpus(const Probe& probe);

/// Whether a hypervisor says that this is a virtual machine.
bool is_virtual(const Probe& probe);

/// Whether this process has a capability; `bit` as in linux/capability.h.
bool has_capability(const Probe& probe, int bit);

std::vector<std::string_view> words_of(std::string_view line);

/// The text after `key` and a colon or spaces, in lines such as those of /proc/meminfo and of a control group's
/// memory.stat; nullopt if there is no such key.
std::optional<std::string_view> field_of(std::string_view text, std::string_view key);

/// The number after such a key in a file.
std::optional<long long> read_value(const Probe& probe, const std::string& path, std::string_view key);

/// Paths of the files that are mapped into a process and whose names begin with `library`, from the text of its
/// /proc/PID/maps.
std::set<std::string> mapped_files(std::string_view maps, std::string_view library);

/// The fields of a stat file (proc(5)) from the state, field 3, on; `name`: its comm, which may have brackets.
std::vector<std::string_view> stat_fields(std::string_view text, std::string* name = nullptr);

/// The kernel's function that a process or a thread sleeps in; empty: none, or not readable. `folder`: "/proc/PID".
std::string wchan_of(const Probe& probe, const std::string& folder);

/// The inode of a process's namespace, such as "pid" or "net"; 0 if not readable.
std::uint64_t namespace_of(const Probe& probe, const std::string& folder, const char* kind);

/// The number of kB after such a key, in bytes.
std::optional<std::uint64_t> kilobytes_of(std::string_view text, std::string_view key);

/// The control groups of a process ("self" or its pid) for one controller, as folders from its own up to the topmost
/// visible one; any of them may have a limit. Empty if the controller is not mounted.
struct CgroupDirs {
  int version = 0;  ///< 1 or 2; 0: none
  std::vector<std::string> dirs;
};

/// `controller`: "memory", "cpu" or "cpuset".
CgroupDirs cgroup_dirs(std::string_view controller, const Probe& probe, const std::string& process = "self");

// This machine itself.

/// This start of this machine, from /proc/sys/kernel/random/boot_id; 0 if that cannot be read.
std::uint64_t this_boot() noexcept;

/// Equal for processes that see one another's shared memory: one start of one machine, one /dev/shm.
std::string this_machine();

/// The host's name with its domain.
std::string full_host_name();

}  // namespace busbar
