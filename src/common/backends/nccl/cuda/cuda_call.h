#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#define BUSBAR_CUDA(call)                                                                                   \
  do {                                                                                                      \
    const cudaError_t busbar_result = (call);                                                               \
    if (busbar_result != cudaSuccess) ::busbar::throw_cuda_error(busbar_result, #call, __FILE__, __LINE__); \
  } while (false)

#define BUSBAR_CUDA_NOEXCEPT(call)                                                                          \
  do {                                                                                                      \
    const cudaError_t busbar_result = (call);                                                               \
    if (busbar_result != cudaSuccess) ::busbar::print_cuda_error(busbar_result, #call, __FILE__, __LINE__); \
  } while (false)

namespace busbar {

/// Throws Error(cuda) with the call, its place and CUDA's error text, and clears CUDA's last error.
[[noreturn]] void throw_cuda_error(cudaError_t result, const char* call, const char* file, int line);

/// The same on stderr, for places that must not throw.
void print_cuda_error(cudaError_t result, const char* call, const char* file, int line) noexcept;

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

/// What cudaMemGetInfo reports for the current device [bytes].
struct GpuMemory {
  std::int64_t free_bytes = 0;
  std::int64_t total_bytes = 0;
};
inline GpuMemory gpu_memory() {
  std::size_t free_bytes = 0, total_bytes = 0;
  BUSBAR_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  return {static_cast<std::int64_t>(free_bytes), static_cast<std::int64_t>(total_bytes)};
}

/// Memory of the current device.
inline DeviceMemory allocate_on_device(std::size_t nbytes) {
  void* memory = nullptr;
  BUSBAR_CUDA(cudaMalloc(&memory, nbytes));
  return DeviceMemory(memory);
}

/// Host memory that the device copies to directly.
inline PinnedMemory allocate_pinned(std::size_t nbytes) {
  void* memory = nullptr;
  BUSBAR_CUDA(cudaHostAlloc(&memory, nbytes, cudaHostAllocPortable));
  return PinnedMemory(memory);
}

}  // namespace busbar
