#pragma once

#include <cstdint>
#include <memory>
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
  std::string bus_id;  ///< "0000:18:00.0", as sysfs and the kernel's log write it
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
  std::optional<unsigned> rows_remapped_uncorrected;  ///< rows of memory replaced after errors that were not corrected
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

/// All that NVML says of a host.
struct HostGpus {
  bool library = false;  ///< NVML is there
  std::string problem;   ///< why it tells nothing; empty: it told
  bool silent = false;   ///< it was asked and gave no answer in time
  std::string driver;    ///< "580.82.07"
  std::vector<GpuFacts> gpus;
  std::size_t on_bus = 0;  ///< NVIDIA GPUs that the PCI bus shows
};

/// "GPU 2 0000:18:00.0".
std::string gpu_subject(const GpuFacts& gpu);

/// Words for the reasons that NVML gives for clocks below the requested ones, those that slow a GPU down by force; idle
/// GPUs and those at their power limit have none.
std::vector<std::string> slowdown_words(std::uint64_t reasons);

/// Asks NVML all. Never throws; may take long where a driver is sick.
HostGpus read_gpus(const std::string& library = "libnvidia-ml.so.1");

/// Asks only what can hold a job up and what the GPUs do, which takes a fraction of the calls; `bus_id` is as
/// nvidia-smi writes it, with eight digits of the domain. Where NVML is not installed `problem` is empty. Never throws;
/// may take long where a driver is sick.
HostGpus read_gpu_health(const std::string& library = "libnvidia-ml.so.1");

/// [s] Without persistence mode the driver takes seconds per GPU to start.
inline constexpr double kGpuPatience = 30;

/// read_gpus, given up after `seconds`; `problem` says so then.
HostGpus read_gpus_within(double seconds = kGpuPatience);

/// Why NVML (libnvidia-ml.so.1, which comes with the driver) does not work, in its own words; empty: it works. Asks
/// once and lets go of the library. Never throws.
std::string nvml_problem(const std::string& library = "libnvidia-ml.so.1");

/// What CUDA's driver says of a GPU and NVML does not.
struct CudaAbilities {
  std::string bus_id;      ///< "0000:18:00.0"
  bool multicast = false;  ///< reductions inside NVSwitch: NVLS needs it
  bool cumem = false;      ///< memory that NCCL can share by handles: CUMEM, and NVLS, need it
};

/// Of the GPUs that CUDA_VISIBLE_DEVICES leaves this process; empty without a driver. No context is made, no memory
/// taken. Never throws; may take long where a driver is sick.
std::vector<CudaAbilities> ask_cuda(const std::string& library = "libcuda.so.1");

/// An error that NVIDIA's driver reported of a GPU.
struct XidEvent {
  std::string gpu;  ///< "GPU 2 0000:18:00.0"
  int xid = 0;
};

/// Hears the XIDs of this host's GPUs from its start on, as NVML's events: unlike the kernel's log they need no root.
/// One process per host listens. Never throws but for want of memory and threads; without a driver, or with one that
/// does not answer within `patience_s`, nothing is heard.
class XidListener {
 public:
  explicit XidListener(const std::string& library = "libnvidia-ml.so.1", double patience_s = kGpuPatience);

  bool listens() const { return session_ != nullptr; }

  /// What came since the start or the last time; does not wait for more.
  std::vector<XidEvent> heard() const;

 private:
  struct Session;
  std::shared_ptr<Session> session_;
  double patience_s_;
};

}  // namespace busbar
