#pragma once

#include "common/backends/nccl/nccl_observation.h"
#include "common/backends/open_backend.h"

#include <memory>
#include <string>
#include <vector>

// Includes neither nccl.h nor CUDA, so that the code that chooses a backend needs neither.

namespace busbar {

/// NCCL on the GPUs of this process: -t x -g ranks, rank = process * t * g + i. `own_gpus`: the launcher shows each
/// process of this host its own GPUs. Collective over the request's world. Failures before NCCL's set-up are thrown as
/// the same AgreedError on all. A failure of the set-up itself is thrown where it happens and must end the job, since
/// the others may wait inside NCCL: do not wrap this call in collectively(). Adds `remarks` for the header.
std::unique_ptr<Backend> make_nccl_backend(const OpenRequest& request, bool own_gpus,
                                           const ObservationSetup& observation, std::vector<std::string>& remarks);

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
