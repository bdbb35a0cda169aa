#pragma once

#include <optional>
#include <vector>

namespace busbar {

/// Which GPUs a process asks for.
struct DeviceRequest {
  int local_rank = 0;                   ///< of the process among those of its host
  int per_process = 1;                  ///< threads x GPUs per thread
  int visible = 0;                      ///< GPUs that this process can use
  std::optional<int> base_device = {};  ///< NCCL_TESTS_DEVICE: the first one, whatever the local rank
  int ranks_per_gpu = 1;
  bool own_gpus = false;  ///< the launcher shows each process GPUs of its own (CUDA_VISIBLE_DEVICES per task)
};

/// CUDA device numbers of the process's ranks, in rank order. Throws Error(not_possible) when they exceed what is
/// visible.
std::vector<int> choose_devices(const DeviceRequest& request);

}  // namespace busbar
