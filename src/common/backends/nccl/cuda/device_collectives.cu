#include "common/backends/nccl/cuda/device_collectives.h"
#include "common/backends/nccl/cuda/peer_collectives.cuh"
#include "kernels/dtype_and_op.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <nccl_device.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace busbar {
namespace {

using peer_collectives::kUnroll;
using peer_collectives::Vector;

/// Where the operation's buffers are in every rank's windows, and an element's bytes.
struct Places {
  ncclWindow_t send_window, recv_window;
  std::size_t send_at, recv_at;
  unsigned width;
};

/// Sums of the formats that C++ lacks, two to a word.
template <class One, class Two>
struct PairSum {
  using Element = std::uint16_t;
  static __device__ std::uint16_t add(std::uint16_t a, std::uint16_t b) {
    auto& x = reinterpret_cast<One&>(a);
    x = __hadd(x, reinterpret_cast<One&>(b));
    return a;
  }
  static __device__ Vector add(Vector a, Vector b) {
    for (unsigned i = 0; i < 4; ++i) {
      auto& x = reinterpret_cast<Two&>(a.word[i]);
      x = __hadd2(x, reinterpret_cast<Two&>(b.word[i]));
    }
    return a;
  }
};
using HalfSum = PairSum<__half, __half2>;
using Bfloat16Sum = PairSum<__nv_bfloat16, __nv_bfloat162>;

// What the switch adds (PTX ISA, multimem.ld_reduce): from compute capability 9.0 on.

#if __CUDA_ARCH__ >= 900
#define BUSBAR_SUM_32(Sum, type)                                                                       \
  __device__ inline std::uint32_t load_sum(Sum, const void* at, std::uint32_t) {                       \
    std::uint32_t sum;                                                                                 \
    asm volatile("multimem.ld_reduce.global.add." type " %0, [%1];" : "=r"(sum) : "l"(at) : "memory"); \
    return sum;                                                                                        \
  }
#define BUSBAR_SUM_64(Sum, type)                                                                       \
  __device__ inline std::uint64_t load_sum(Sum, const void* at, std::uint64_t) {                       \
    std::uint64_t sum;                                                                                 \
    asm volatile("multimem.ld_reduce.global.add." type " %0, [%1];" : "=l"(sum) : "l"(at) : "memory"); \
    return sum;                                                                                        \
  }
#define BUSBAR_SUM_VECTOR(Sum, type)                                                          \
  __device__ inline Vector load_sum(Sum, const void* at, Vector) {                            \
    Vector sum;                                                                               \
    asm volatile("multimem.ld_reduce.global.add." type " {%0, %1, %2, %3}, [%4];"             \
                 : "=r"(sum.word[0]), "=r"(sum.word[1]), "=r"(sum.word[2]), "=r"(sum.word[3]) \
                 : "l"(at)                                                                    \
                 : "memory");                                                                 \
    return sum;                                                                               \
  }
BUSBAR_SUM_32(peer_collectives::PlainSum<std::uint32_t>, "u32")
BUSBAR_SUM_64(peer_collectives::PlainSum<std::uint64_t>, "u64")
BUSBAR_SUM_64(peer_collectives::PlainSum<double>, "f64")
BUSBAR_SUM_32(peer_collectives::PlainSum<float>, "f32")
BUSBAR_SUM_32(HalfSum, "acc::f32.f16x2")
BUSBAR_SUM_32(Bfloat16Sum, "acc::f32.bf16x2")
BUSBAR_SUM_VECTOR(peer_collectives::PlainSum<float>, "v4.f32")
BUSBAR_SUM_VECTOR(HalfSum, "acc::f32.v4.f16x2")
BUSBAR_SUM_VECTOR(Bfloat16Sum, "acc::f32.v4.bf16x2")

__device__ inline void store_all(void* at, std::uint32_t word) {
  asm volatile("multimem.st.global.u32 [%0], %1;" : : "l"(at), "r"(word) : "memory");
}
__device__ inline void store_all(void* at, std::uint64_t word) {
  asm volatile("multimem.st.global.u64 [%0], %1;" : : "l"(at), "l"(word) : "memory");
}
__device__ inline void store_all(void* at, Vector v) {
  asm volatile("multimem.st.global.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(at), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}
#endif

// Fabrics (peer_collectives.cuh).

/// Every rank's memory by loads and stores; `in_switch`: also by the switch.
template <bool in_switch>
class LsaFabric {
 public:
  __device__ LsaFabric(const Places& places, const ncclDevComm& comm)
      : places_(places), comm_(comm), barrier_(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x, in_switch) {}

  __device__ int rank() const { return comm_.lsaRank; }
  __device__ int nranks() const { return comm_.lsaSize; }
  __device__ const unsigned char* send(int peer) const {
    return static_cast<const unsigned char*>(ncclGetLsaPointer(places_.send_window, places_.send_at, peer));
  }
  __device__ unsigned char* recv(int peer) const {
    return static_cast<unsigned char*>(ncclGetLsaPointer(places_.recv_window, places_.recv_at, peer));
  }
  __device__ void enter() { barrier_.sync(ncclCoopCta(), cuda::memory_order_acquire); }
  __device__ void leave() { barrier_.sync(ncclCoopCta(), cuda::memory_order_release); }

#if __CUDA_ARCH__ >= 900
  template <class Sum, class Word>
  __device__ Word load_sum(std::uint64_t byte) const {
    return busbar::load_sum(Sum{}, ncclGetLsaMultimemPointer(places_.send_window, places_.send_at + byte, comm_),
                            Word{});
  }
  template <class Word>
  __device__ void store_all(std::uint64_t byte, Word word) const {
    busbar::store_all(ncclGetLsaMultimemPointer(places_.recv_window, places_.recv_at + byte, comm_), word);
  }
#endif

 private:
  const Places& places_;
  const ncclDevComm& comm_;
  ncclLsaBarrierSession<ncclCoopCta> barrier_;
};

/// Every rank's memory over the network, near ones' by loads and stores too. Only the kernel creates the session:
/// anywhere else the host's compiler sees its constructor, in which NCCL 2.28 lacks a `typename`.
class NetworkFabric {
 public:
  __device__ NetworkFabric(const Places& places, const ncclDevComm& comm, const ncclGin& gin,
                           ncclBarrierSession<ncclCoopCta>& barrier)
      : places_(places), comm_(comm), gin_(gin), barrier_(barrier) {}

  __device__ int rank() const { return comm_.rank; }
  __device__ int nranks() const { return comm_.nRanks; }
  __device__ int near_first() const { return comm_.rank - comm_.lsaRank; }
  __device__ int near_count() const { return comm_.lsaSize; }
  __device__ const unsigned char* send(int peer) const {
    const int near = peer - near_first();
    return static_cast<const unsigned char*>(ncclGetLsaPointer(places_.send_window, places_.send_at, near));
  }
  __device__ unsigned char* recv(int peer) const {
    const int near = peer - near_first();
    return static_cast<unsigned char*>(ncclGetLsaPointer(places_.recv_window, places_.recv_at, near));
  }
  __device__ void enter() { barrier_.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::Relaxed); }
  __device__ void leave() { barrier_.sync(ncclCoopCta(), cuda::memory_order_release, ncclGinFenceLevel::Relaxed); }

  __device__ std::uint64_t signals() const { return gin_.readSignal(blockIdx.x); }
  __device__ void put(int peer, std::uint64_t to, std::uint64_t from, std::uint64_t nbytes) const {
    gin_.put(ncclTeamWorld(comm_), peer, places_.recv_window, places_.recv_at + to, places_.send_window,
             places_.send_at + from, nbytes, ncclGin_SignalInc{blockIdx.x});
  }
  __device__ void wait_for(std::uint64_t least) const { gin_.waitSignal(ncclCoopCta(), blockIdx.x, least); }
  __device__ void flush() const { gin_.flush(ncclCoopCta()); }

 private:
  const Places& places_;
  const ncclDevComm& comm_;
  const ncclGin& gin_;
  ncclBarrierSession<ncclCoopCta>& barrier_;
};

// Kernels.

using Kernel = void (*)(Places, std::uint64_t, ncclDevComm);
#define BUSBAR_KERNEL(name)                         \
  __global__ void __launch_bounds__(kDeviceThreads) \
      name(const __grid_constant__ Places places, std::uint64_t count, const __grid_constant__ ncclDevComm comm)

template <class Sum>
BUSBAR_KERNEL(all_reduce_lsa) {
  LsaFabric<false> fabric(places, comm);
  peer_collectives::all_reduce<Sum>(fabric, count);
}

template <class Sum>
BUSBAR_KERNEL(all_reduce_lsa_vector) {
  LsaFabric<false> fabric(places, comm);
  peer_collectives::all_reduce_by_vectors<Sum>(fabric, count);
}

template <class Sum, class Word, unsigned unroll>
BUSBAR_KERNEL(all_reduce_multimem) {
#if __CUDA_ARCH__ >= 900
  LsaFabric<true> fabric(places, comm);
  peer_collectives::all_reduce_in_switch<Sum, Word, unroll>(fabric, count);
#endif
}

template <class T>
BUSBAR_KERNEL(alltoall_lsa) {
  LsaFabric<false> fabric(places, comm);
  peer_collectives::alltoall<T>(fabric, count);
}

template <class T>
BUSBAR_KERNEL(alltoall_lsa_vector) {
  LsaFabric<false> fabric(places, comm);
  peer_collectives::alltoall_by_vectors<T>(fabric, count);
}

BUSBAR_KERNEL(alltoall_gin) {
  const ncclGin gin(comm, 0);
  ncclBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x);
  NetworkFabric fabric(places, comm, gin, barrier);
  peer_collectives::alltoall_over_network(fabric, count * places.width);
}

BUSBAR_KERNEL(alltoall_gin_lsa) {
  const ncclGin gin(comm, 0);
  ncclBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x);
  NetworkFabric fabric(places, comm, gin, barrier);
  peer_collectives::alltoall_near_and_far(fabric, count, places.width);
}

/// Word: what the switch adds at once for one thread; Wide: the widest such type.
template <class Sum, class Word, class Wide>
Kernel all_reduce_kernel(int implementation) {
  switch (implementation) {
    case 1:
      return all_reduce_lsa<Sum>;
    case 2:
      return all_reduce_lsa_vector<Sum>;
    case 3:
      if constexpr (sizeof(Word) > 1) return all_reduce_multimem<Sum, Word, 1>;
      return nullptr;
    case 4:
      if constexpr (sizeof(Word) > 1) return all_reduce_multimem<Sum, Wide, kUnroll>;
      return nullptr;
  }
  return nullptr;
}

template <class T>
Kernel alltoall_kernel(int implementation) {
  switch (implementation) {
    case 1:
      return alltoall_lsa<T>;
    case 2:
      return alltoall_lsa_vector<T>;
    case 3:
      return alltoall_gin;
    case 4:
      return alltoall_gin_lsa;
  }
  return nullptr;
}

Kernel all_reduce_kernel(int implementation, DType dtype) {
  using namespace peer_collectives;
  using Word32 = std::uint32_t;
  using Word64 = std::uint64_t;
  switch (dtype) {
    case DType::int8:
    case DType::uint8:
      return all_reduce_kernel<ByteSum, std::uint8_t, std::uint8_t>(implementation);
    case DType::int32:
    case DType::uint32:
      return all_reduce_kernel<PlainSum<Word32>, Word32, Word32>(implementation);
    case DType::int64:
    case DType::uint64:
      return all_reduce_kernel<PlainSum<Word64>, Word64, Word64>(implementation);
    case DType::half:
      return all_reduce_kernel<HalfSum, Word32, Vector>(implementation);
    case DType::bfloat16:
      return all_reduce_kernel<Bfloat16Sum, Word32, Vector>(implementation);
    case DType::float32:
      return all_reduce_kernel<PlainSum<float>, Word32, Vector>(implementation);
    case DType::float64:
      return all_reduce_kernel<PlainSum<double>, Word64, Word64>(implementation);
    case DType::f8e4m3:
    case DType::f8e5m2:
      return nullptr;
  }
  return nullptr;
}

Kernel kernel_of(CollectiveId collective, int implementation, DType dtype) {
  if (collective == CollectiveId::all_reduce) return all_reduce_kernel(implementation, dtype);
  return with_bits_of(size_of(dtype), [&](auto bits) { return alltoall_kernel<decltype(bits)>(implementation); });
}

}  // namespace

NcclHeader device_collectives_header() { return {NCCL_VERSION_CODE, sizeof(ncclDevComm)}; }

int prepare_device_collective(CollectiveId collective, int implementation, int* blocks) {
  int device = 0, sms = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  if (const cudaError_t error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device)) return error;
  int least = std::numeric_limits<int>::max();
  for (const DType dtype : kAllDTypes) {
    const Kernel kernel = kernel_of(collective, implementation, dtype);
    if (kernel == nullptr) continue;
    cudaFuncAttributes attributes;  // querying them loads a kernel (CUDA programming guide, "Lazy Loading")
    int per_sm = 0;
    if (const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel)) return error;
    if (const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, kDeviceThreads, 0)) {
      return error;
    }
    least = std::min(least, per_sm * sms);
  }
  *blocks = least;
  return cudaSuccess;
}

int launch_device_collective(const DeviceCall& call, const ncclDevComm& communicator, void* stream) {
  const Kernel kernel = kernel_of(call.collective, call.implementation, call.dtype);
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(call.blocks));
  config.blockDim = dim3(kDeviceThreads);
  config.stream = static_cast<cudaStream_t>(stream);
  const Places places{static_cast<ncclWindow_t>(call.send_window), static_cast<ncclWindow_t>(call.recv_window),
                      call.send_at, call.recv_at, static_cast<unsigned>(size_of(call.dtype))};
  return cudaLaunchKernelEx(&config, kernel, places, static_cast<std::uint64_t>(call.count), communicator);
}

}  // namespace busbar
