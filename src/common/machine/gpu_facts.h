#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// One NVLink of a GPU; links that the GPU does not have are not told.
struct NvLink {
  int link = 0;
  bool active = false;
  std::optional<unsigned> speed_mbps;  ///< MB/s, one way
};

/// What the fabric manager made of a GPU (nvmlGpuFabricInfo).
struct GpuFabric {
  int state = 0;  ///< 0 not supported, 1 not started, 2 in progress, 3 completed
  int status = 0;
  unsigned clique = 0;
  std::string cluster;  ///< UUID in hexadecimal digits
  unsigned health = 0;  ///< two bits each: degraded bandwidth, route recovery, route unhealthy, access timeout recovery
};

struct GpuProcess {
  unsigned pid = 0;
  std::uint64_t nbytes = 0;
  std::string program;  ///< empty: not visible from here
  bool ours = false;    ///< runs the program that asks, so it is probably another rank
};

/// What NVML says of one GPU; nothing where it does not say, because the model or the driver lacks it.
struct GpuFacts {
  int index = 0;
  std::string bus_id;
  std::string uuid;
  std::string model;
  std::string vbios;
  bool lost = false;
  bool needs_reset = false;

  std::optional<std::uint64_t> memory_nbytes;
  std::optional<std::uint64_t> memory_used;
  std::optional<bool> ecc;
  std::optional<std::uint64_t> ecc_uncorrected;       ///< since the driver was loaded
  std::optional<std::uint64_t> sram_uncorrected;      ///< ever
  std::optional<std::uint64_t> sram_corrected;        ///< ever
  std::optional<std::uint64_t> dram_corrected;        ///< ever
  std::optional<unsigned> rows_remapped_corrected;    ///< rows of memory replaced after errors that were corrected
  std::optional<unsigned> rows_remapped_uncorrected;  ///< ... that were not
  bool remap_pending = false;
  bool remap_failed = false;
  std::optional<unsigned> pages_retired;  ///< before Ampere
  bool retirement_pending = false;

  std::vector<NvLink> nvlinks;
  std::optional<GpuFabric> fabric;
  std::vector<int> p2p;  ///< nvmlGpuP2PStatus_t with each GPU of the host, 0 with itself; empty: not told

  std::optional<std::uint64_t> clock_reasons;  ///< nvmlClocksEventReason... bits
  std::optional<int> temperature_c;
  std::optional<int> slowdown_c;  ///< at which the clocks go down
  std::optional<int> memory_temperature_c;
  std::optional<int> memory_max_c;
  std::optional<double> power_limit_w;
  std::optional<double> power_default_w;
  std::optional<unsigned> pcie_generation, pcie_generation_max;
  std::optional<unsigned> pcie_width, pcie_width_max;
  std::optional<bool> persistence;
  std::optional<int> compute_mode;  ///< 0 default, 2 prohibited, 3 one process only
  std::optional<bool> mig;
  std::vector<GpuProcess> processes;
  std::optional<bool> multicast, cumem;  ///< by CUDA's driver (ask_cuda.h)

  // Counters, for deltas.
  std::optional<std::uint64_t> pcie_replays;
  std::optional<std::uint64_t> nvlink_replays, nvlink_recoveries, nvlink_crc_errors;  ///< of all links
};

/// All that NVML says of a host.
struct HostGpus {
  bool library = false;  ///< NVML is there
  std::string problem;   ///< why it tells nothing; empty: it told
  std::string driver;    ///< "580.82.07"
  std::vector<GpuFacts> gpus;
  std::size_t on_bus = 0;  ///< NVIDIA GPUs that the PCI bus shows
};

/// Asks NVML. Never throws; may take long where a driver is sick.
HostGpus read_gpus(const std::string& library = "libnvidia-ml.so.1");

/// The same, given up after `seconds`; `problem` says so then.
HostGpus read_gpus_within(double seconds);

}  // namespace busbar
