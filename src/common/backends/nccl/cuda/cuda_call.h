#pragma once

#include <cuda_runtime_api.h>

namespace busbar {

/// Throws Error(cuda) with the call, its place and CUDA's own words, and clears CUDA's last error.
[[noreturn]] void throw_cuda_error(cudaError_t result, const char* call, const char* file, int line);

/// The same on stderr, for places that must not throw.
void print_cuda_error(cudaError_t result, const char* call, const char* file, int line) noexcept;

}  // namespace busbar

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
