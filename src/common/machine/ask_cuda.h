#pragma once

#include <string>
#include <vector>

namespace busbar {

/// What CUDA's driver says of a GPU and NVML does not.
struct CudaAbilities {
  std::string bus_id;      ///< "0000:18:00.0"
  bool multicast = false;  ///< reductions inside NVSwitch: NVLS needs it
  bool cumem = false;      ///< memory that NCCL can share by handles: CUMEM, and NVLS, need it
};

/// Of the GPUs that CUDA_VISIBLE_DEVICES leaves this process; empty without a driver. No context is made, no memory
/// taken. Never throws; may take long where a driver is sick.
std::vector<CudaAbilities> ask_cuda(const std::string& library = "libcuda.so.1");

}  // namespace busbar
