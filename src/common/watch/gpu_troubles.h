#pragma once

#include "common/machine/gpus.h"
#include "common/watch/hang_evidence.h"

#include <vector>

namespace busbar {

/// What of the GPUs' health can hold a job up, and one line on what they do.
std::vector<Trouble> gpu_troubles(const HostGpus& health);

/// Asks NVML in a thread of its own and waits 3 s at most: a driver whose GPU fell off the bus may never answer.
std::vector<Trouble> ask_gpu_troubles();

}  // namespace busbar
