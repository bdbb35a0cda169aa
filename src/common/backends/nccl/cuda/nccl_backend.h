#pragma once

// Includes neither nccl.h nor CUDA, so that the code that chooses a backend needs neither.

#include "common/backends/nccl/nccl_observation.h"
#include "common/backends/open_backend.h"

#include <memory>
#include <string>
#include <vector>

namespace busbar {

/// NCCL on the GPUs of this process: -t x -g ranks, rank = process * t * g + i. `own_gpus`: the launcher shows each
/// process of this host its own GPUs. Collective over the request's world. Failures before NCCL's set-up are thrown as
/// the same AgreedError on all. A failure of the set-up itself is thrown where it happens and must end the job, since
/// the others may wait inside NCCL: do not wrap this call in collectively(). Adds `remarks` for the header.
std::unique_ptr<Backend> make_nccl_backend(const OpenRequest& request, bool own_gpus,
                                           const ObservationSetup& observation, std::vector<std::string>& remarks);

}  // namespace busbar
