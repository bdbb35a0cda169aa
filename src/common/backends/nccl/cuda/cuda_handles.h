#pragma once

#include "common/backends/nccl/cuda/cuda_call.h"

#include <cstddef>
#include <memory>

namespace busbar {

/// Calls a CUDA release function; a failure is printed, since destructors must not throw.
template <auto release>
struct CudaDeleter {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    BUSBAR_CUDA_NOEXCEPT(release(handle));
  }
};

using CudaStream = std::unique_ptr<CUstream_st, CudaDeleter<cudaStreamDestroy>>;
using CudaEvent = std::unique_ptr<CUevent_st, CudaDeleter<cudaEventDestroy>>;
using CudaGraph = std::unique_ptr<CUgraph_st, CudaDeleter<cudaGraphDestroy>>;
using CudaGraphExec = std::unique_ptr<CUgraphExec_st, CudaDeleter<cudaGraphExecDestroy>>;
using DeviceMemory = std::unique_ptr<void, CudaDeleter<cudaFree>>;
using PinnedMemory = std::unique_ptr<void, CudaDeleter<cudaFreeHost>>;

/// Memory of the current device.
inline DeviceMemory allocate_on_device(std::size_t nbytes) {
  void* memory = nullptr;
  BUSBAR_CUDA(cudaMalloc(&memory, nbytes));
  return DeviceMemory(memory);
}

/// Host memory that the device copies to without a detour.
inline PinnedMemory allocate_pinned(std::size_t nbytes) {
  void* memory = nullptr;
  BUSBAR_CUDA(cudaHostAlloc(&memory, nbytes, cudaHostAllocPortable));
  return PinnedMemory(memory);
}

}  // namespace busbar
