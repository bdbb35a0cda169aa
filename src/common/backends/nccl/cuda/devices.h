#pragma once

#include "common/backends/backend_entry.h"

namespace busbar {

/// Queries the driver, without touching a GPU. Never throws for a missing driver: that is an answer.
LocalGpus local_gpus();

/// The header's facts: the PCI bus id as nccl-tests prints it, and the name.
DeviceInfo gpu_info(int device);

/// 90 for sm_90.
int compute_capability(int device);

}  // namespace busbar
