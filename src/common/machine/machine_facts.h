#pragma once

#include "common/machine/probe.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// What several checks ask of a machine. Pure in the probe.

/// A function on the PCI bus.
struct PciFunction {
  std::string address;  ///< "0000:18:00.0"
  std::string path;     ///< with all links followed: "/sys/devices/pci0000:15/0000:15:01.0/..."
  int numa_node = -1;   ///< -1: the firmware does not tell
  std::string local_cpus;
};

/// NVIDIA's GPUs on the bus, in the order of their addresses; needs no driver.
std::vector<PciFunction> gpu_functions(const Probe& probe);

/// What stands behind `folder`/device, a PCI function; nothing for virtual devices.
std::optional<PciFunction> pci_function_of(const Probe& probe, const std::string& folder);

/// Whether the node has hardware for which limits and memory matter: elsewhere few of them are worth a word.
bool has_gpus(const Probe& probe);
bool has_rdma(const Probe& probe);

/// The number at the start of a file's text ("4" of "4: ACTIVE"); nothing where there is none.
std::optional<long long> read_count(const Probe& probe, const std::string& path);

/// NUMA nodes that have memory or CPUs; at least 1.
int numa_nodes(const Probe& probe);

/// CPUs that are online; at least 1.
int online_cpus(const Probe& probe);

/// Whether a hypervisor says that it is one.
bool is_virtual(const Probe& probe);

std::vector<std::string_view> lines_of_text(std::string_view text);
std::vector<std::string_view> words_of(std::string_view line);

/// What stands behind `key` and a colon in lines such as those of /proc/meminfo; nothing where the key is not there.
std::optional<std::string_view> field_of(std::string_view text, std::string_view key);

/// The number of kB behind such a key, in bytes.
std::optional<std::uint64_t> kilobytes_of(std::string_view text, std::string_view key);

}  // namespace busbar
