#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// One NVLink of a GPU; links that the GPU does not have are left out.
struct NvLink {
  int link = 0;
  bool active = false;
  std::optional<unsigned> speed_mbps;  ///< MB/s, one way
};

/// The fabric manager's result for a GPU (nvmlGpuFabricInfo).
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
  bool ours = false;    ///< runs the same program as we do, so it is probably another rank
};

/// What NVML reports about one GPU; nullopt if it does not, because the model or the driver lacks it.
struct GpuFacts {
  int index = 0;
  std::string bus_id;  ///< "0000:18:00.0", as sysfs and the kernel's log write it
  std::string uuid;
  std::string model;
  std::string vbios;
  bool lost = false;
  bool needs_reset = false;
  bool refused = false;  ///< NVML does not give it, for another reason

  std::optional<std::uint64_t> memory_nbytes;
  std::optional<std::uint64_t> memory_used;
  std::optional<bool> ecc;
  std::optional<std::uint64_t> ecc_uncorrected;       ///< since the driver was loaded
  std::optional<std::uint64_t> sram_uncorrected;      ///< ever
  std::optional<std::uint64_t> sram_corrected;        ///< ever
  std::optional<std::uint64_t> dram_corrected;        ///< ever
  std::optional<unsigned> rows_remapped_uncorrected;  ///< rows of memory replaced after uncorrected errors
  bool remap_pending = false;
  bool remap_failed = false;
  std::optional<unsigned> pages_retired;  ///< before Ampere
  bool retirement_pending = false;

  std::vector<NvLink> nvlinks;
  std::optional<GpuFabric> fabric;
  std::vector<int> p2p;  ///< nvmlGpuP2PStatus_t with each GPU of the host, 0 with itself; empty: not reported

  std::optional<std::uint64_t> clock_reasons;  ///< nvmlClocksEventReason... bits
  std::optional<int> temperature_c;
  std::optional<int> slowdown_c;  ///< at which the clocks slow down
  std::optional<int> memory_temperature_c;
  std::optional<int> memory_max_c;
  std::optional<double> power_w;
  std::optional<double> power_limit_w;
  std::optional<double> power_default_w;
  std::optional<unsigned> pcie_generation, pcie_generation_max;
  std::optional<unsigned> pcie_width, pcie_width_max;
  std::optional<int> busy_percent;
  std::optional<bool> persistence;
  std::optional<int> compute_mode;  ///< 0 default, 2 prohibited, 3 one process only
  std::optional<bool> mig;
  std::vector<GpuProcess> processes;
  std::optional<bool> multicast, cumem;  ///< by CUDA's driver (ask_cuda)

  // Counters, for deltas.
  std::optional<std::uint64_t> pcie_replays;
  std::optional<std::uint64_t> nvlink_replays, nvlink_recoveries, nvlink_crc_errors;  ///< of all links
};

/// All that NVML reports about a host.
struct HostGpus {
  bool library = false;  ///< NVML is there
  std::string problem;   ///< why it reports nothing; empty: it reported
  bool silent = false;   ///< it was asked and did not answer in time
  std::string driver;    ///< "580.82.07"
  std::vector<GpuFacts> gpus;
  std::size_t on_bus = 0;  ///< NVIDIA GPUs that the PCI bus shows
};

/// "GPU 2 0000:18:00.0".
std::string gpu_subject(const GpuFacts& gpu);

/// The reasons, as text, that NVML gives for clocks below the requested ones, if they slow a GPU down by force; idle
/// GPUs and GPUs at their power limit have none.
std::vector<std::string> slowdown_words(std::uint64_t reasons);

/// Asks NVML everything. Never throws; may take long if a driver is sick.
HostGpus read_gpus(const std::string& library = "libnvidia-ml.so.1");

/// [s] Without persistence mode the driver takes seconds per GPU to start.
inline constexpr double kGpuPatience = 30;

/// read_gpus, but gives up after `seconds` and says so in `problem`.
HostGpus read_gpus_within(double seconds = kGpuPatience);

/// Why NVML (libnvidia-ml.so.1, part of the driver) does not work, in its own words; empty: it works. Asks once and
/// closes the library. Never throws.
std::string nvml_problem(const std::string& library = "libnvidia-ml.so.1");

/// What CUDA's driver reports about a GPU and NVML does not.
struct CudaAbilities {
  std::string bus_id;      ///< "0000:18:00.0"
  bool multicast = false;  ///< reductions inside NVSwitch: NVLS needs it
  bool cumem = false;      ///< memory that NCCL can share by handles: CUMEM, and NVLS, need it
};

/// For the GPUs that CUDA_VISIBLE_DEVICES leaves to this process; empty without a driver. Creates no context and
/// allocates no memory. Never throws; may take long if a driver is sick.
std::vector<CudaAbilities> ask_cuda(const std::string& library = "libcuda.so.1");

/// An error that NVIDIA's driver reported for a GPU.
struct XidEvent {
  std::string gpu;  ///< "GPU 2 0000:18:00.0"
  int xid = 0;
};

/// Receives the XIDs of this host's GPUs from its start on, as NVML's events: unlike the kernel's log, they need no
/// root. One process per host listens. Never throws except for lack of memory and threads. Without a driver, or if it
/// does not answer within `patience_s`, receives nothing.
class XidListener {
 public:
  explicit XidListener(const std::string& library = "libnvidia-ml.so.1", double patience_s = kGpuPatience);

  bool listens() const { return session_ != nullptr; }

  /// What came since the start or the last call; does not wait for more.
  std::vector<XidEvent> heard() const;

 private:
  struct Session;
  std::shared_ptr<Session> session_;
  double patience_s_;
};

}  // namespace busbar
