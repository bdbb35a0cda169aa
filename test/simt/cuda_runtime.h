#pragma once

// Found before CUDA's header of this name, it lets a host compiler take the kernels of device.cu as they are. A launch
// runs at once, block after block on the calling thread, the threads of a block as fibers (simt.cpp); so what a block
// shares is static, and atomics need nothing. Stricter than a GPU: no vector may be unaligned, and a barrier that a
// thread of the block never reaches ends the launch with an error. Several GPUs whose kernels wait for each other run
// together (run_streams).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>  // before the macros: it says __noinline__ itself
#include <type_traits>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __noinline__ [[gnu::noinline]]

struct uint3 {
  unsigned x, y, z;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9, cudaErrorLaunchFailure = 719 };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount };
using cudaStream_t = void*;

namespace simt {

/// The order in which the threads of a block get their turn, between any two barriers.
enum class Order { rising, falling, shuffled };

/// What the tests choose of the machine.
struct Machine {
  int sms = 1;
  int blocks_per_sm = 1;
  Order order = Order::rising;
  std::function<std::vector<uint3>(dim3 grid)> chosen;  ///< the blocks that are run; empty: all
  int device = 0;
  int occupancy_questions = 0;                                     ///< how often a kernel's was asked for
  std::function<void(const void* at, std::size_t nbytes)> stored;  ///< hears of every store of a thread; empty: nobody
};
Machine& machine();

/// Runs the body as every thread of every chosen block.
cudaError_t launch(dim3 grid, dim3 block, const std::function<void()>& body);

struct Kernel {
  dim3 grid, block;
  std::function<void()> body;
};

/// Runs the streams of several GPUs at the same time: the kernels of each in turn, all blocks of a kernel together, so
/// that threads of all GPUs take turns. The threads of GPU `late` seldom get one. An error where all wait for ever.
cudaError_t run_streams(const std::vector<std::vector<Kernel>>& streams, int late = -1);

/// A barrier of the block, or of the calling thread's warp.
void wait_for_block();
void wait_for_warp();

/// Gives the turn away in a loop that looks for what another GPU will write.
void look_again();

/// Where the calling thread leaves 8 bytes for the others of its block.
std::uint64_t& slot(unsigned thread);

/// Ends the launch: the calling thread did what no GPU forgives.
[[noreturn]] void fail(const char* why);

}  // namespace simt

/// Of the thread whose turn it is.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

template <class... Expected, class... Actual>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Expected...), Actual&&... arguments) {
  return simt::launch(config->gridDim, config->blockDim, [&] { kernel(Expected(arguments)...); });
}

inline cudaError_t cudaGetDevice(int* device) { return *device = simt::machine().device, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  return *value = simt::machine().sms, cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* memory, int byte, std::size_t nbytes, cudaStream_t) {
  return std::memset(memory, byte, nbytes), cudaSuccess;
}

struct cudaFuncAttributes {};
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, Kernel*) {
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel*, int, std::size_t) {
  ++simt::machine().occupancy_questions;
  return *blocks = simt::machine().blocks_per_sm, cudaSuccess;
}

template <class T>
T min(T a, T b) {
  return std::min(a, b);
}
template <class T>
T max(T a, T b) {
  return std::max(a, b);
}

/// Loads and stores that are atomic or nothing: of aligned memory.
template <class T>
T __ldcs(const T* memory) {
  if (reinterpret_cast<std::uintptr_t>(memory) % sizeof(T) != 0) simt::fail("a load from unaligned memory");
  return *memory;
}
template <class T>
void __stcs(T* memory, T value) {
  if (reinterpret_cast<std::uintptr_t>(memory) % sizeof(T) != 0) simt::fail("a store to unaligned memory");
  if (simt::machine().stored) simt::machine().stored(memory, sizeof value);
  *memory = value;
}

/// The lower word of the two, shifted right by the lowest five bits of `shift`.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(high) << 32 | low) >> (shift % 32));
}

inline void __syncthreads() { simt::wait_for_block(); }

inline int __syncthreads_or(int mine) {
  simt::slot(threadIdx.x) = mine != 0;
  simt::wait_for_block();
  std::uint64_t any = 0;
  for (unsigned i = 0; i < blockDim.x; ++i) any |= simt::slot(i);
  simt::wait_for_block();
  return static_cast<int>(any);
}

/// What thread `source` of the block gives, of this warp. Every lane of the warp must come.
template <class T>
T shuffled(unsigned lanes, T value, unsigned source) {
  static_assert(sizeof(T) <= 8);
  if (lanes != ~0u) simt::fail("a shuffle of part of a warp");
  std::memcpy(&simt::slot(threadIdx.x), &value, sizeof value);
  simt::wait_for_warp();
  T got;
  std::memcpy(&got, &simt::slot(source), sizeof got);
  simt::wait_for_warp();
  return got;
}
/// A lane without a source gets its own value back.
template <class T>
T __shfl_down_sync(unsigned lanes, T value, unsigned step) {
  return shuffled(lanes, value, threadIdx.x % 32 + step < 32 ? threadIdx.x + step : threadIdx.x);
}
template <class T>
T __shfl_xor_sync(unsigned lanes, T value, unsigned bits) {
  return shuffled(lanes, value, threadIdx.x ^ bits);
}

template <class T>
T atomicAdd(T* at, T value) {
  const T old = *at;
  *at += value;
  return old;
}
template <class T>
T atomicMin(T* at, T value) {
  const T old = *at;
  *at = std::min(old, value);
  return old;
}
template <class T>
T atomicMax(T* at, T value) {
  const T old = *at;
  *at = std::max(old, value);
  return old;
}
