#pragma once

#include <string>
#include <vector>

namespace busbar {

/// Where this process is bound, as short as a device line needs: "core 3", "cores 0-7,16", or "unbound" if it may use
/// every core that this host (or container) grants. Numbers are hwloc's logical ones, unique on the host, as in Open
/// MPI's --report-bindings.
std::string binding_text();

/// The --topology lines of this host and process: the process's NUMA node, then each NVIDIA GPU with its NUMA node and
/// nearest NICs, then each NIC with its NUMA node and nearest GPUs. If no PCI devices are visible, one line says so.
/// `xml_file`: a topology saved by hwloc instead of this machine's, for tests; a process is unbound there.
std::vector<std::string> topology_lines(const std::string& xml_file = "");

}  // namespace busbar
