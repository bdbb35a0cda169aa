#include "kernels/device.h"
#include "kernels/lane.h"
#include "kernels/number.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace busbar {
namespace {

constexpr int kThreads = 256;
constexpr int kTableEntries = (kPaletteSize + 1) * kPicks;
constexpr unsigned kMaxGridY = 65535;

/// Thread blocks that a multiprocessor holds of these kernels, more or less: enough of them hide the memory's latency.
constexpr int kBlocksPerSm = 8;

/// Copies the rows into shared memory, in which lookups of 32 threads cost the same as one.
template <unsigned W>
__device__ void load_rows(const Pattern& pattern, bool reduction, BitsOf<W>* rows) {
  const int entries = reduction ? kPaletteSize * kPicks : kTableEntries;
  for (int i = static_cast<int>(threadIdx.x); i < entries; i += kThreads) {
    rows[i] = static_cast<BitsOf<W>>(row_entry(pattern, reduction, i / kPicks, i % kPicks));
  }
}

__device__ std::uint64_t grid_thread() { return static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ std::uint64_t grid_threads() { return static_cast<std::uint64_t>(gridDim.x) * kThreads; }

template <unsigned W, bool reduces>
__global__ void __launch_bounds__(kThreads) fill_kernel(const __grid_constant__ Pattern pattern, int rank,
                                                        std::uint64_t first, std::uint64_t count, void* dst) {
  __shared__ BitsOf<W> rows[kTableEntries];
  if constexpr (reduces) {
    load_rows<W>(pattern, rank == kReduction, rows);
    __syncthreads();
  }
  constexpr unsigned per_vector = 16 / W;
  const Split parts = split<W>(dst, first, count);
  Maker<W, reduces> maker(pattern, rank, first, rows);
  auto* const elements = static_cast<BitsOf<W>*>(dst);
  auto* const vectors = reinterpret_cast<uint4*>(elements + parts.head);
  for (std::uint64_t i = grid_thread(); i < parts.vectors; i += grid_threads()) {
    const Vector16 v = maker.vector(first + parts.head + i * per_vector);
    __stcs(vectors + i, make_uint4(v.x, v.y, v.z, v.w));
  }
  for (std::uint64_t i = grid_thread(); i < parts.singles; i += grid_threads()) {
    const std::uint64_t at = i < parts.head ? i : i + parts.vectors * per_vector;
    elements[at] = maker.element(first + at);
  }
}

template <unsigned W>
__global__ void __launch_bounds__(kThreads) repeat_kernel(BitsOf<W> bits, std::uint64_t count, void* dst) {
  auto* const elements = static_cast<BitsOf<W>*>(dst);
  for (std::uint64_t i = grid_thread(); i < count; i += grid_threads()) elements[i] = bits;
}

/// counts_as, here.
__device__ bool differs(const Pattern& pattern, std::uint64_t got, std::uint64_t want) {
  if (got == want) return false;
  if (pattern.tolerance <= 0) return true;
  return !(fabs(decode_float(pattern.dtype, got) - decode_float(pattern.dtype, want)) <= pattern.tolerance);
}

/// What one thread has found.
struct Found {
  std::uint64_t wrong = 0;
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t last = 0;

  __device__ void add(std::uint64_t index) {
    ++wrong;
    first = min(first, index);
    last = max(last, index);
  }
};

/// Apart, because it is rarely called and would take registers from the loop that is always run.
template <unsigned W>
__device__ __noinline__ void compare_vector(const Pattern& pattern, uint4 got, Vector16 want, std::uint64_t index,
                                            Found& found) {
  const std::uint32_t g[4] = {got.x, got.y, got.z, got.w}, w[4] = {want.x, want.y, want.z, want.w};
#pragma unroll
  for (unsigned j = 0; j < 16 / W; ++j) {
    std::uint64_t g_bits, w_bits;
    if constexpr (W == 8) {
      g_bits = static_cast<std::uint64_t>(g[2 * j + 1]) << 32 | g[2 * j];
      w_bits = static_cast<std::uint64_t>(w[2 * j + 1]) << 32 | w[2 * j];
    } else {
      g_bits = static_cast<BitsOf<W>>(g[j * W / 4] >> (j * W % 4 * 8));
      w_bits = static_cast<BitsOf<W>>(w[j * W / 4] >> (j * W % 4 * 8));
    }
    if (differs(pattern, g_bits, w_bits)) found.add(index + j);
  }
}

/// Adds a thread block's findings to *result. Every thread of the block calls it.
__device__ void report(const Found& found, CheckResult* result) {
  if (__syncthreads_or(found.wrong != 0) == 0) return;
  unsigned long long wrong = found.wrong, first = found.first, last = found.last;
  for (int step = 16; step > 0; step /= 2) {
    wrong += __shfl_down_sync(~0u, wrong, step);
    first = min(first, __shfl_down_sync(~0u, first, step));
    last = max(last, __shfl_down_sync(~0u, last, step));
  }
  if (threadIdx.x % 32 != 0 || wrong == 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&result->wrong), wrong);
  atomicMin(reinterpret_cast<unsigned long long*>(&result->first), first);
  atomicMax(reinterpret_cast<unsigned long long*>(&result->last), last);
}

template <unsigned W, bool reduces>
__device__ void check_block(const Pattern& pattern, const Block& block, const void* recv, const BitsOf<W>* rows,
                            Found& found) {
  constexpr unsigned per_vector = 16 / W;
  const auto* const elements = static_cast<const BitsOf<W>*>(recv) + block.at;
  const Split parts = split<W>(elements, block.from, block.count);
  Maker<W, reduces> maker(pattern, block.source, block.from, rows);
  const auto* const vectors = reinterpret_cast<const uint4*>(elements + parts.head);
  for (std::uint64_t i = grid_thread(); i < parts.vectors; i += grid_threads()) {
    const std::uint64_t at = parts.head + i * per_vector;
    const uint4 got = __ldcs(vectors + i);
    const Vector16 want = maker.vector(block.from + at);
    const bool equal = ((got.x ^ want.x) | (got.y ^ want.y) | (got.z ^ want.z) | (got.w ^ want.w)) == 0;
    if (!equal) compare_vector<W>(pattern, got, want, block.at + at, found);
  }
  for (std::uint64_t i = grid_thread(); i < parts.singles; i += grid_threads()) {
    const std::uint64_t at = i < parts.head ? i : i + parts.vectors * per_vector;
    if (differs(pattern, elements[at], maker.element(block.from + at))) found.add(block.at + at);
  }
}

template <unsigned W, bool reduces>
__global__ void __launch_bounds__(kThreads) check_kernel(const __grid_constant__ Pattern pattern, const Block* blocks,
                                                         std::uint64_t nblocks, const void* recv, CheckResult* result) {
  __shared__ BitsOf<W> rows[kTableEntries];
  int loaded = 0;  // 0: nothing, 1: a rank's rows, 2: the reduction's
  Found found;
  for (std::uint64_t b = blockIdx.y; b < nblocks; b += gridDim.y) {
    const Block block = blocks[b];
    const int needed = block.source == kReduction ? 2 : 1;
    if (reduces && loaded != needed) {
      __syncthreads();
      load_rows<W>(pattern, needed == 2, rows);
      __syncthreads();
      loaded = needed;
    }
    check_block<W, reduces>(pattern, block, recv, rows, found);
  }
  report(found, result);
}

__global__ void reset_kernel(CheckResult* result) { *result = {0, ~std::uint64_t{0}, 0}; }

/// Thread blocks that fill the current device.
unsigned resident_blocks() {
  int device = 0, sms = 1;
  if (cudaGetDevice(&device) == cudaSuccess) cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  return static_cast<unsigned>(std::max(sms, 1) * kBlocksPerSm);
}

unsigned blocks_for(std::uint64_t threads) {
  const std::uint64_t needed = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(needed, 1, resident_blocks()));
}

/// Calls `launch` with the width and the kind of the pattern as compile-time constants.
template <class Launch>
int dispatch(const Pattern& pattern, Launch launch) {
  const auto with_width = [&](auto width) {
    pattern.reduces ? launch(width, std::true_type{}) : launch(width, std::false_type{});
  };
  switch (size_of(pattern.dtype)) {
    case 1:
      with_width(std::integral_constant<unsigned, 1>{});
      break;
    case 2:
      with_width(std::integral_constant<unsigned, 2>{});
      break;
    case 4:
      with_width(std::integral_constant<unsigned, 4>{});
      break;
    default:
      with_width(std::integral_constant<unsigned, 8>{});
      break;
  }
  return cudaGetLastError();
}

}  // namespace

int fill_on_device(const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst, void* stream) {
  if (count == 0) return cudaSuccess;
  const auto on = static_cast<cudaStream_t>(stream);
  const unsigned blocks = blocks_for(count * size_of(pattern.dtype) / 16 + 1);
  return dispatch(pattern, [&](auto width, auto reduces) {
    fill_kernel<decltype(width)::value, decltype(reduces)::value>
        <<<blocks, kThreads, 0, on>>>(pattern, rank, first, count, dst);
  });
}

int fill_neutral_on_device(const Pattern& pattern, std::size_t count, void* dst, void* stream) {
  if (count == 0) return cudaSuccess;
  const auto on = static_cast<cudaStream_t>(stream);
  const std::uint64_t bits = pattern.reduces ? pattern.neutral : 0;
  if (bits == 0) return cudaMemsetAsync(dst, 0, count * size_of(pattern.dtype), on);
  const unsigned blocks = blocks_for(count);
  return dispatch(pattern, [&](auto width, auto) {
    constexpr unsigned w = decltype(width)::value;
    repeat_kernel<w><<<blocks, kThreads, 0, on>>>(static_cast<BitsOf<w>>(bits), count, dst);
  });
}

int check_on_device(const Pattern& pattern, const Block* blocks, std::size_t nblocks, const void* recv,
                    CheckResult* result, void* stream) {
  if (nblocks == 0) return cudaSuccess;
  const auto on = static_cast<cudaStream_t>(stream);
  // The blocks' sizes are known on the device only. Most receive one block, or one per rank of equal size.
  const auto y = static_cast<unsigned>(std::min<std::size_t>(nblocks, kMaxGridY));
  const dim3 grid(std::max(1u, resident_blocks() / y), y);
  return dispatch(pattern, [&](auto width, auto reduces) {
    check_kernel<decltype(width)::value, decltype(reduces)::value>
        <<<grid, kThreads, 0, on>>>(pattern, blocks, nblocks, recv, result);
  });
}

int reset_check_on_device(CheckResult* result, void* stream) {
  reset_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(result);
  return cudaGetLastError();
}

int preload_device_kernels() {
  // Asking for its attributes loads a kernel (CUDA programming guide, "Lazy Loading").
  cudaFuncAttributes attributes;
  int error = cudaFuncGetAttributes(&attributes, reset_kernel);
  for (const DType dtype : {DType::int8, DType::half, DType::float32, DType::float64}) {
    for (const bool reduces : {false, true}) {
      Pattern pattern;
      pattern.dtype = dtype;
      pattern.reduces = reduces;
      dispatch(pattern, [&](auto width, auto kind) {
        constexpr unsigned w = decltype(width)::value;
        constexpr bool r = decltype(kind)::value;
        for (const int result : {int{cudaFuncGetAttributes(&attributes, fill_kernel<w, r>)},
                                 int{cudaFuncGetAttributes(&attributes, check_kernel<w, r>)},
                                 int{cudaFuncGetAttributes(&attributes, repeat_kernel<w>)}}) {
          if (error == 0) error = result;
        }
      });
    }
  }
  return error;
}

}  // namespace busbar
