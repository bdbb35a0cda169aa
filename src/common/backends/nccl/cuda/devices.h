#pragma once

#include "common/backends/open_backend.h"

namespace busbar {

/// Queries the driver, without touching a GPU. Never throws for a missing driver: that is an answer.
LocalGpus local_gpus();

/// Makes this process's context on the GPU, which is then the current one. Throws Error(not_possible) if the GPU's
/// compute mode keeps this process out.
void claim_gpu(int device);

/// The header's facts: the PCI bus id as nccl-tests prints it, and the name.
DeviceInfo gpu_info(int device);

/// 90 for sm_90.
int compute_capability(int device);

}  // namespace busbar
