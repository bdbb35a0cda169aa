#pragma once

#include "common/backends/backend.h"

#include <string>
#include <vector>

namespace busbar {

/// GPUs that CUDA lets this process use.
struct LocalGpus {
  int count = 0;
  std::string problem;           ///< why there are none; empty: there are some
  std::vector<std::string> ids;  ///< unique per GPU (and MIG slice) of a host
};

/// Asks the driver, without touching a GPU. Never throws for a missing driver: that is an answer.
LocalGpus local_gpus();

/// The header's facts: PCI bus id as nccl-tests prints it, and the name.
DeviceInfo gpu_info(int device);

/// 90 for sm_90.
int compute_capability(int device);

}  // namespace busbar
