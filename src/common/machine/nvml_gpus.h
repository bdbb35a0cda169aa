#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

/// What NVML says of one GPU now; -1 and empty where it does not say.
struct GpuHealth {
  int index = 0;
  std::string bus_id;
  bool lost = false;  ///< it does not answer any more ("fallen off the bus")
  bool needs_reset = false;
  double power_w = -1;
  double power_limit_w = -1;
  int temperature_c = -1;
  int busy_percent = -1;
  std::vector<std::string> slowed_by;  ///< "heat (hardware)", "power brake"; idleness and power cap are none
  std::int64_t ecc_uncorrected = -1;   ///< since the driver was loaded
  bool remap_failed = false;           ///< a row of memory could not be replaced
  int nvlinks_up = 0;
  int nvlinks_down = 0;
};

struct GpusHealth {
  std::vector<GpuHealth> gpus;
  std::string problem;  ///< why NVML tells nothing although it is installed; empty: it told, or there is none
};

/// Asks NVML about every GPU of this host. Never throws; may take long where a driver is sick.
GpusHealth ask_gpu_health(const std::string& library = "libnvidia-ml.so.1");

/// Words for the reasons that NVML gives for clocks below the requested ones, those that slow a GPU down by force.
std::vector<std::string> slowdown_words(std::uint64_t reasons);

}  // namespace busbar
