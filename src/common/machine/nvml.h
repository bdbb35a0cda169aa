#pragma once

#include <string>

namespace busbar {

/// What the NVIDIA driver says of itself through NVML (libnvidia-ml.so.1, which comes with the driver).
struct NvmlFacts {
  std::string driver_version;  ///< "580.82.07"; empty: unknown
  int gpus = 0;                ///< that the driver manages, whatever CUDA_VISIBLE_DEVICES hides
  std::string problem;         ///< why NVML does not work, in its own words; empty: it works
};

/// Asks once and lets go of the library. Never throws.
NvmlFacts ask_nvml(const std::string& library = "libnvidia-ml.so.1");

}  // namespace busbar
