#pragma once

#include "driver/doctor/checks.h"

#include <string>
#include <vector>

namespace busbar {

/// What CUDA shows a process of `ngpus` GPUs under a value of CUDA_VISIBLE_DEVICES: numbers as "2", and UUIDs as they
/// are; it stops at the first entry that is none. Pure.
std::vector<std::string> visible_gpus(const std::string& value, std::size_t ngpus);

/// The GPU that this rank takes, by its local rank among those that it sees; no row on a host without GPUs.
void check_own_gpu(const Probe& probe, Rows& rows);

/// Ranks of one node that take the same GPU, from the rows of check_own_gpu; `parts`: one per rank.
void check_shared_gpus(const Probe& probe, const std::vector<NodeReport>& parts, Rows& rows);

}  // namespace busbar
