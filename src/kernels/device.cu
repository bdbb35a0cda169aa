#include "kernels/host.h"
#include "kernels/lane.h"
#include "kernels/number.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <type_traits>

namespace busbar {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarp = 32;
constexpr unsigned kMaxGridY = 65535;

/// Copies the rows into shared memory.
template <unsigned W>
__device__ void load_rows(const Pattern& pattern, bool reduction, Rows<W>& rows) {
  const unsigned entries = (reduction ? kPaletteSize : kPaletteSize + 1) * kPicks;
  for (unsigned i = threadIdx.x; i < entries; i += kThreads) {
    rows.set(i / kPicks, i % kPicks, row_entry(pattern, reduction, i / kPicks, i % kPicks));
  }
}

__device__ std::uint64_t grid_thread() { return static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ std::uint64_t grid_threads() { return static_cast<std::uint64_t>(gridDim.x) * kThreads; }

/// Calls `each` with every pair of vectors that this thread makes of the groups [from, end): the group's place among
/// the range's, and the pair in the group, which is always the same.
template <unsigned W, class Each>
__device__ void for_pairs(std::uint32_t from, std::uint32_t end, Each each) {
  constexpr unsigned per_block = kThreads / W;
  const unsigned j = threadIdx.x % W;
  for (std::uint32_t g = from + blockIdx.x * per_block + threadIdx.x / W; g < end; g += gridDim.x * per_block)
    each(g, j);
}

/// Calls `each` with the place of every single element that this thread makes.
__device__ void for_singles(const Split& parts, auto each) {
  for (std::uint64_t i = grid_thread(); i < parts.singles; i += grid_threads()) {
    each(i < parts.head ? i : i + std::uint64_t{parts.groups} * kGroupElems);
  }
}

/// Cuts elements [first, first + count) at the ends of segments; calls `each` with what is before and in each part.
__device__ void for_segments(std::uint64_t first, std::uint64_t count, auto each) {
  for (std::uint64_t before = 0; before < count;) {
    const std::uint64_t part = min(count - before, kSegmentElems - (first + before) % kSegmentElems);
    each(before, part);
    before += part;
  }
}

/// The byte of the low vector of a pair; the high one is sixteen elements later.
template <unsigned W>
__device__ std::uint64_t pair_byte(std::uint32_t g, unsigned j) {
  return static_cast<std::uint64_t>(g) * (kGroupElems * W) + j * 16;
}

/// A vector at an address that is aligned to elements; `in_step`: to vectors, too.
template <unsigned W, bool in_step>
__device__ void store_vector(unsigned char* at, const Vector16& v) {
  const std::uint32_t* const w = v.words;
  if constexpr (in_step) {
    __stcs(reinterpret_cast<uint4*>(at), make_uint4(w[0], w[1], w[2], w[3]));
  } else if constexpr (W == 8) {
    for (unsigned i = 0; i < 2; ++i) {
      __stcs(reinterpret_cast<uint2*>(at) + i, make_uint2(w[2 * i], w[2 * i + 1]));
    }
  } else {
    // The bytes before the first whole word, the whole words, and those after them.
    const unsigned before = W == 4 ? 0 : (0 - static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at))) % 4;
    const auto aligned = reinterpret_cast<std::uint32_t*>(at + before);
    for (unsigned i = 0; i < 3; ++i) __stcs(aligned + i, __funnelshift_r(w[i], w[i + 1], before * 8));
    const std::uint32_t last = w[3] >> (before * 8);
    if (before == 0) {
      __stcs(aligned + 3, last);
    } else {
      unsigned char* const end = at + before + 12;
      if (W == 1 && before % 2 != 0) *at = static_cast<unsigned char>(w[0]);
      if (before >= 2) {
        *reinterpret_cast<std::uint16_t*>(at + before % 2) = static_cast<std::uint16_t>(w[0] >> (before % 2 * 8));
      }
      if (before <= 2) *reinterpret_cast<std::uint16_t*>(end) = static_cast<std::uint16_t>(last);
      if (W == 1 && before % 2 != 0) at[15] = static_cast<unsigned char>(w[3] >> 24);
    }
  }
}

/// The same for a load; for an unaligned one, the words that contain it are read.
template <unsigned W, bool in_step>
__device__ Vector16 load_vector(const unsigned char* at) {
  if constexpr (in_step) {
    const uint4 v = __ldcs(reinterpret_cast<const uint4*>(at));
    return {{v.x, v.y, v.z, v.w}};
  } else if constexpr (W == 8) {
    const auto two = reinterpret_cast<const uint2*>(at);
    const uint2 a = __ldcs(two), b = __ldcs(two + 1);
    return {{a.x, a.y, b.x, b.y}};
  } else {
    const unsigned into = W == 4 ? 0 : static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at)) % 4;
    const auto aligned = reinterpret_cast<const std::uint32_t*>(at - into);
    std::uint32_t w[5];
    for (unsigned i = 0; i < 4; ++i) w[i] = __ldcs(aligned + i);
    w[4] = into == 0 ? 0 : __ldcs(aligned + 4);
    Vector16 v;
    for (unsigned i = 0; i < 4; ++i) v.words[i] = __funnelshift_r(w[i], w[i + 1], into * 8);
    return v;
  }
}

/// Stores the pairs of vectors of two neighboring threads, each of which is 32 bytes of memory: a whole sector at once.
/// Stored vector by vector, each sector would be written into the cache twice. All threads of a warp call this.
__device__ void store_sectors(unsigned char* memory, std::uint32_t g, const VectorPair& made) {
  const bool odd = g % 2 != 0;
  Vector16 of_even, of_odd;
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t got = __shfl_xor_sync(~0u, odd ? made.low.words[i] : made.high.words[i], 1);
    of_even.words[i] = odd ? got : made.low.words[i];
    of_odd.words[i] = odd ? made.high.words[i] : got;
  }
  unsigned char* const at = memory + pair_byte<1>(g & ~1u, odd ? 1 : 0);
  store_vector<1, true>(at, of_even);
  store_vector<1, true>(at + kGroupElems, of_odd);
}

template <unsigned W, Holds holds>
__device__ void fill_range(const Pattern& pattern, int rank, std::uint64_t first, std::uint64_t count, void* dst,
                           const Rows<W>* rows) {
  for_segments(first, count, [&](std::uint64_t before, std::uint64_t part) {
    auto* const elements = static_cast<BitsOf<W>*>(dst) + before;
    const std::uint64_t from = first + before;
    const Split parts = split<W>(elements, from, part);
    const Maker<W, holds> maker(pattern, rank, from, rows);
    auto* const memory = reinterpret_cast<unsigned char*>(elements + parts.head);
    const auto first_group = static_cast<std::uint32_t>((from + parts.head) / kGroupElems);
    const auto fill_pairs = [&](auto in_step) {
      // What no whole warp makes is the last of all.
      const std::uint32_t by_sectors = W == 1 && decltype(in_step)::value ? parts.groups / kWarp * kWarp : 0;
      for_pairs<W>(0, by_sectors,
                   [&](std::uint32_t g, unsigned j) { store_sectors(memory, g, maker.pair(first_group + g, j)); });
      for_pairs<W>(by_sectors, parts.groups, [&](std::uint32_t g, unsigned j) {
        const VectorPair made = maker.pair(first_group + g, j);
        unsigned char* const at = memory + pair_byte<W>(g, j);
        store_vector<W, decltype(in_step)::value>(at, made.low);
        store_vector<W, decltype(in_step)::value>(at + 16 * W, made.high);
      });
    };
    parts.in_step ? fill_pairs(std::true_type{}) : fill_pairs(std::false_type{});
    for_singles(parts, [&](std::uint64_t at) { elements[at] = maker.element(from + at); });
  });
}

template <unsigned W, bool reduces>
__global__ void __launch_bounds__(kThreads) fill_kernel(const __grid_constant__ Pattern pattern, int rank,
                                                        std::uint64_t first, std::uint64_t count, void* dst) {
  if constexpr (reduces) {
    __shared__ Rows<W> rows;
    load_rows<W>(pattern, rank == kReduction, rows);
    __syncthreads();
    if (rank == kReduction) {
      fill_range<W, Holds::reduced>(pattern, rank, first, count, dst, &rows);
    } else {
      fill_range<W, Holds::rank>(pattern, rank, first, count, dst, &rows);
    }
  } else {
    fill_range<W, Holds::moved>(pattern, rank, first, count, dst, nullptr);
  }
}

template <unsigned W>
__global__ void __launch_bounds__(kThreads) repeat_kernel(BitsOf<W> bits, std::uint64_t count, void* dst) {
  auto* const elements = static_cast<BitsOf<W>*>(dst);
  for (std::uint64_t i = grid_thread(); i < count; i += grid_threads()) elements[i] = bits;
}

/// Not inlined: rarely called, and would take registers from the loops that always run.
__device__ __noinline__ bool beyond_tolerance(const Pattern& pattern, std::uint64_t got, std::uint64_t want) {
  return !(fabs(decode_float(pattern.dtype, got) - decode_float(pattern.dtype, want)) <= pattern.tolerance);
}

/// Not counts_as, here.
__device__ bool differs(const Pattern& pattern, std::uint64_t got, std::uint64_t want) {
  return got != want && (pattern.tolerance <= 0 || beyond_tolerance(pattern, got, want));
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

template <unsigned W>
__device__ __noinline__ void compare_vector(const Pattern& pattern, Vector16 got, Vector16 want, std::uint64_t index,
                                            Found& found) {
#pragma unroll
  for (unsigned j = 0; j < 16 / W; ++j) {
    std::uint64_t g_bits, w_bits;
    if constexpr (W == 8) {
      g_bits = static_cast<std::uint64_t>(got.words[2 * j + 1]) << 32 | got.words[2 * j];
      w_bits = static_cast<std::uint64_t>(want.words[2 * j + 1]) << 32 | want.words[2 * j];
    } else {
      g_bits = static_cast<BitsOf<W>>(got.words[j * W / 4] >> (j * W % 4 * 8));
      w_bits = static_cast<BitsOf<W>>(want.words[j * W / 4] >> (j * W % 4 * 8));
    }
    if (differs(pattern, g_bits, w_bits)) found.add(index + j);
  }
}

__device__ bool equal(const Vector16& a, const Vector16& b) {
  std::uint32_t difference = 0;
  for (unsigned i = 0; i < 4; ++i) difference |= a.words[i] ^ b.words[i];
  return difference == 0;
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

template <unsigned W, Holds holds>
__device__ void check_block(const Pattern& pattern, const Block& block, const void* recv, const Rows<W>* rows,
                            Found& found) {
  for_segments(block.from, block.count, [&](std::uint64_t before, std::uint64_t part) {
    const std::uint64_t from = block.from + before, index = block.at + before;
    const auto* const elements = static_cast<const BitsOf<W>*>(recv) + index;
    const Split parts = split<W>(elements, from, part);
    const Maker<W, holds> maker(pattern, block.source, from, rows);
    const auto* const memory = reinterpret_cast<const unsigned char*>(elements + parts.head);
    const auto first_group = static_cast<std::uint32_t>((from + parts.head) / kGroupElems);
    const auto check_pairs = [&](auto in_step) {
      for_pairs<W>(0, parts.groups, [&](std::uint32_t g, unsigned j) {
        const unsigned char* const at = memory + pair_byte<W>(g, j);
        const Vector16 low = load_vector<W, decltype(in_step)::value>(at);
        const Vector16 high = load_vector<W, decltype(in_step)::value>(at + 16 * W);
        const VectorPair want = maker.pair(first_group + g, j);
        if (equal(low, want.low) && equal(high, want.high)) return;
        const std::uint64_t first = index + parts.head + std::uint64_t{g} * kGroupElems + j * (16 / W);
        compare_vector<W>(pattern, low, want.low, first, found);
        compare_vector<W>(pattern, high, want.high, first + 16, found);
      });
    };
    parts.in_step ? check_pairs(std::true_type{}) : check_pairs(std::false_type{});
    for_singles(parts, [&](std::uint64_t at) {
      if (differs(pattern, elements[at], maker.element(from + at))) found.add(index + at);
    });
  });
}

template <unsigned W, bool reduces>
__global__ void __launch_bounds__(kThreads) check_kernel(const __grid_constant__ Pattern pattern, const Block* blocks,
                                                         std::uint64_t nblocks, const void* recv, CheckResult* result) {
  __shared__ Rows<W> rows;
  int loaded = 0;  // 0: nothing, 1: a rank's rows, 2: the reduction's
  Found found;
  for (std::uint64_t b = blockIdx.y; b < nblocks; b += gridDim.y) {
    const Block block = blocks[b];
    if constexpr (reduces) {
      const bool reduction = block.source == kReduction;
      if (loaded != 1 + reduction) {
        __syncthreads();
        load_rows<W>(pattern, reduction, rows);
        __syncthreads();
        loaded = 1 + reduction;
      }
      if (reduction) {
        check_block<W, Holds::reduced>(pattern, block, recv, &rows, found);
      } else {
        check_block<W, Holds::rank>(pattern, block, recv, &rows, found);
      }
    } else {
      check_block<W, Holds::moved>(pattern, block, recv, nullptr, found);
    }
  }
  report(found, result);
}

__global__ void reset_kernel(CheckResult* result) { *result = {0, ~std::uint64_t{0}, 0}; }

/// Thread blocks of a kernel that fill the current device: as many as are resident at once, since a slightly larger
/// grid ends in a round of few blocks. A kernel's number is queried once on each of the first devices.
template <auto kernel>
unsigned resident_blocks() {
  constexpr int kMaxDevices = 64;
  static std::array<std::atomic<unsigned>, kMaxDevices> known{};  // 0: not queried
  int device = 0, sms = 1, per_sm = 1;
  if (cudaGetDevice(&device) != cudaSuccess) return 1;
  if (device < kMaxDevices && known[device] > 0) return known[device];
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, kThreads, 0);
  const auto blocks = static_cast<unsigned>(std::max(sms, 1) * std::max(per_sm, 1));
  if (device < kMaxDevices) known[device] = blocks;
  return blocks;
}

template <auto kernel>
unsigned blocks_for(std::uint64_t threads) {
  const std::uint64_t needed = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(needed, 1, resident_blocks<kernel>()));
}

/// Calls `work` with the width and the kind of the pattern as compile-time constants; returns its result.
template <class Work>
int dispatch(const Pattern& pattern, Work work) {
  const auto with_width = [&](auto width) -> int {
    return pattern.reduces ? work(width, std::true_type{}) : work(width, std::false_type{});
  };
  switch (size_of(pattern.dtype)) {
    case 1:
      return with_width(std::integral_constant<unsigned, 1>{});
    case 2:
      return with_width(std::integral_constant<unsigned, 2>{});
    case 4:
      return with_width(std::integral_constant<unsigned, 4>{});
    default:
      return with_width(std::integral_constant<unsigned, 8>{});
  }
}

/// A launch as a call, without the triple angle brackets, which only nvcc understands.
template <class... Parameters, class... Arguments>
int launch(void (*kernel)(Parameters...), dim3 grid, unsigned threads, void* stream, const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = threads;
  config.stream = static_cast<cudaStream_t>(stream);
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace

int fill_on_device(const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst, void* stream) {
  if (count == 0) return cudaSuccess;
  return dispatch(pattern, [&](auto width, auto reduces) {
    constexpr auto kernel = fill_kernel<decltype(width)::value, decltype(reduces)::value>;
    const unsigned blocks = blocks_for<kernel>(count * width / 32 + 1);
    return launch(kernel, blocks, kThreads, stream, pattern, rank, first, count, dst);
  });
}

int fill_neutral_on_device(const Pattern& pattern, std::size_t count, void* dst, void* stream) {
  if (count == 0) return cudaSuccess;
  const std::uint64_t bits = pattern.reduces ? pattern.neutral : 0;
  if (bits == 0) {
    return cudaMemsetAsync(dst, 0, count * size_of(pattern.dtype), static_cast<cudaStream_t>(stream));
  }
  return dispatch(pattern, [&](auto width, auto) {
    constexpr auto kernel = repeat_kernel<decltype(width)::value>;
    const auto element = static_cast<BitsOf<decltype(width)::value>>(bits);
    return launch(kernel, blocks_for<kernel>(count), kThreads, stream, element, count, dst);
  });
}

int check_on_device(const Pattern& pattern, const Block* blocks, std::size_t nblocks, const void* recv,
                    CheckResult* result, void* stream) {
  if (nblocks == 0) return cudaSuccess;
  // Only the device knows the blocks' sizes. Most ranks receive one block, or one per rank of equal size.
  const auto y = static_cast<unsigned>(std::min<std::size_t>(nblocks, kMaxGridY));
  return dispatch(pattern, [&](auto width, auto reduces) {
    constexpr auto kernel = check_kernel<decltype(width)::value, decltype(reduces)::value>;
    const dim3 grid(std::max(1u, resident_blocks<kernel>() / y), y);
    return launch(kernel, grid, kThreads, stream, pattern, blocks, nblocks, recv, result);
  });
}

int reset_check_on_device(CheckResult* result, void* stream) { return launch(reset_kernel, 1, 1, stream, result); }

int preload_device_kernels() {
  // Asking for its attributes loads a kernel (CUDA programming guide, "Lazy Loading").
  cudaFuncAttributes attributes;
  int error = cudaFuncGetAttributes(&attributes, reset_kernel);
  const auto preload = [&](auto kernel) {
    if (error == 0) error = cudaFuncGetAttributes(&attributes, kernel);
  };
  for (const DType dtype : {DType::int8, DType::half, DType::float32, DType::float64}) {
    for (const bool reduces : {false, true}) {
      Pattern pattern;
      pattern.dtype = dtype;
      pattern.reduces = reduces;
      dispatch(pattern, [&](auto width, auto kind) {
        constexpr unsigned w = decltype(width)::value;
        constexpr bool r = decltype(kind)::value;
        preload(fill_kernel<w, r>);
        preload(check_kernel<w, r>);
        preload(repeat_kernel<w>);
        return error;
      });
    }
  }
  return error;
}

}  // namespace busbar
