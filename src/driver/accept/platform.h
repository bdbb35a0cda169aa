#pragma once

#include "common/machine/gpus.h"
#include "common/machine/probe.h"
#include "common/processes/comm.h"
#include "common/record/accept_result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Where a platform's figure comes from.
enum class FigureKind : std::uint8_t {
  measured,   ///< somebody measured it
  threshold,  ///< what a vendor still accepts
};
constexpr EnumWords<2> words_of(FigureKind) { return {"measured", "threshold"}; }

/// What is known to be reached on a platform, by number of nodes, network, collective, size and algorithm.
struct PlatformEntry {
  int nodes_min = 1;
  int nodes_max = 1;
  int nranks = 0;       ///< 0: all GPUs of the nodes
  std::string network;  ///< "ib", "efa", ...; empty: any
  std::string collective;
  std::uint64_t nbytes_min = 0;
  std::uint64_t nbytes_max = 0;
  std::string algorithm;  ///< "RING", "NVLS", ...; empty: any
  double busbw = 0;       ///< [1e9 B/s]
  FigureKind kind = FigureKind::measured;
  std::string source;  ///< printed with the verdict
};

/// What links allow an algorithm: inside a node, or between nodes over a network.
struct PlatformCeiling {
  std::string network;     ///< empty: inside a node
  std::string collective;  ///< empty: any
  std::string algorithm;   ///< "RING", "NVLS"
  double busbw = 0;        ///< [1e9 B/s]
  std::string source;
};

/// How a platform is recognized, and what it reaches; one file of configs/platforms.
struct Platform {
  std::string name;                  ///< "h100-sxm"
  std::string gpu;                   ///< a whole word of the device's name, "H100"
  std::vector<std::string> gpu_not;  ///< words that make it another one, "PCIe"
  int gpus_per_node = 0;
  std::vector<PlatformCeiling> ceilings;
  std::vector<PlatformEntry> entries;
};

/// Reads one file of configs/platforms. Throws Error(bad_config) with file and line; numbers need a source and a kind.
Platform read_platform(std::string_view text, const std::string& file_name);

/// All that are part of the executable.
std::vector<Platform> shipped_platforms();

/// The platform of these hosts, or why none. Pure: device names ("NVIDIA H200 x 8") and counts decide.
struct RecognisedPlatform {
  const Platform* platform = nullptr;  ///< into the list given
  std::string reason;                  ///< if there is none
};
RecognisedPlatform recognise_platform(const std::vector<Platform>& platforms,
                                      const std::vector<AcceptResult::Host>& hosts);

/// What a measured cell should reach, or why that is not known; nothing of this is guessed.
struct Expected {
  const PlatformEntry* of_ran = nullptr;  ///< of the algorithm that ran; into the platform
  const PlatformEntry* better = nullptr;  ///< of another algorithm that reaches more there
  std::string reason;                     ///< if there is none
};
Expected expected_busbw(const Platform& platform, const std::string& network, const Cell& cell);

/// The busbw that links allow the algorithm that ran [1e9 B/s], or why that is not known.
struct Ceiling {
  double busbw = 0;
  std::string source;
  std::string reason;  ///< if busbw is 0
};
Ceiling ceiling_busbw(const Platform& platform, const std::string& network, const Cell& cell);

/// The NVLink that joins this host's GPUs with those of other hosts (the racks of GB200), as the fabric manager names
/// it: "CLUSTER/CLIQUE"; empty if there is none, or not all GPUs are in it. Pure.
std::string nvlink_domain(const HostGpus& gpus);

/// nvlink_domain of every host, in the order of their lowest ranks; complete on process 0. Asks NVML. Collective.
std::vector<std::string> nvlink_domains(const Comm& world);

/// What carries traffic between hosts, as this one shows: "mnnvl" if all hosts are in one of `domains`, "tcpxo"
/// if Google's plugin for it is set up, else by sysfs "ib", "roce", "efa" or "ethernet". Pure.
std::string network_of(const Probe& probe, const std::vector<std::string>& domains);

}  // namespace busbar
