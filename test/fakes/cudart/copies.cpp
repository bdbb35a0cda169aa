// Copies and fills, and operations of streams on single values in memory.

#include "fakes/cudart/cudart.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

using cudart::done;
using cudart::Work;

bool is_pageable(const void* address) { return cudart::range_at(address).nbytes == 0; }

/// Pageable memory is staged before the call returns, and has its data when it does.
cudaError_t copy(void* dst, const void* src, std::size_t nbytes, cudaStream_t handle, const char* call) {
  if (nbytes == 0) return done(cudaSuccess, call);
  Work work = [=] { std::memmove(dst, src, nbytes); };
  if (is_pageable(src)) {
    const auto* const bytes = static_cast<const std::byte*>(src);
    work = [dst, staged = std::vector<std::byte>(bytes, bytes + nbytes)] {
      std::memcpy(dst, staged.data(), staged.size());
    };
  }
  const cudaError_t result = cudart::submit_work(handle, std::move(work), call);
  return result == cudaSuccess && is_pageable(dst) ? cudaStreamSynchronize(handle) : result;
}

template <class T>
bool holds(const T* at, T value, unsigned flags) {
  const T now = *const_cast<const volatile T*>(at);
  switch (flags & 3U) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::make_signed_t<T>>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    default:
      return (now | value) != ~T{0};
  }
}

template <class T>
Work waiting(CUdeviceptr address, T value, unsigned flags) {
  return [at = reinterpret_cast<const T*>(address), value, flags] {
    while (!holds(at, value, flags)) std::this_thread::sleep_for(std::chrono::microseconds(20));
    std::atomic_thread_fence(std::memory_order_acquire);
  };
}
template <class T>
Work writing(CUdeviceptr address, T value) {
  return [at = reinterpret_cast<T*>(address), value] {
    std::atomic_thread_fence(std::memory_order_release);
    *const_cast<volatile T*>(at) = value;
  };
}

CUresult submitted(cudaStream_t stream, Work work, const char* call) {
  return done(static_cast<CUresult>(cudart::submit_work(stream, std::move(work), call)), call);
}

Work work_of(const CUstreamBatchMemOpParams& operation) {
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return waiting<std::uint32_t>(operation.waitValue.address, operation.waitValue.value, operation.waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return waiting<std::uint64_t>(operation.waitValue.address, operation.waitValue.value64,
                                    operation.waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return writing<std::uint32_t>(operation.writeValue.address, operation.writeValue.value);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return writing<std::uint64_t>(operation.writeValue.address, operation.writeValue.value64);
    default:
      return [] {};
  }
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t nbytes, cudaMemcpyKind, cudaStream_t stream) {
  return copy(dst, src, nbytes, stream, __func__);
}
cudaError_t cudaMemcpy(void* dst, const void* src, std::size_t nbytes, cudaMemcpyKind) {
  if (!cudart::may_synchronize()) return done(cudaErrorStreamCaptureUnsupported);
  const cudaError_t result = copy(dst, src, nbytes, nullptr, __func__);
  return result == cudaSuccess ? cudaStreamSynchronize(nullptr) : result;
}
cudaError_t cudaMemcpyBatchAsync(void* const* dsts, const void* const* srcs, const std::size_t* sizes,
                                 std::size_t count, cudaMemcpyAttributes*, std::size_t*, std::size_t,
                                 cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy) return done(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < count; ++i) {
    if (const cudaError_t result = copy(dsts[i], srcs[i], sizes[i], stream, __func__); result != cudaSuccess)
      return result;
  }
  return done(cudaSuccess);
}
cudaError_t cudaMemsetAsync(void* dst, int value, std::size_t nbytes, cudaStream_t stream) {
  if (nbytes > 0 && is_pageable(dst)) return done(cudaErrorInvalidValue);
  return cudart::submit_work(stream, [=] { std::memset(dst, value, nbytes); });
}
cudaError_t cudaMemset(void* dst, int value, std::size_t nbytes) {
  if (!cudart::may_synchronize()) return done(cudaErrorStreamCaptureUnsupported);
  const cudaError_t result = cudaMemsetAsync(dst, value, nbytes, nullptr);
  return result == cudaSuccess ? cudaStreamSynchronize(nullptr) : result;
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return submitted(stream, waiting<std::uint32_t>(address, value, flags), __func__);
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return submitted(stream, waiting<std::uint64_t>(address, value, flags), __func__);
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  return submitted(stream, writing<std::uint32_t>(address, value), __func__);
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  return submitted(stream, writing<std::uint64_t>(address, value), __func__);
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned) {
  std::vector<Work> all;
  for (unsigned i = 0; i < count; ++i) all.push_back(work_of(operations[i]));
  return submitted(
      stream, [all = std::move(all)] { std::ranges::for_each(all, [](const Work& w) { w(); }); }, __func__);
}

}  // extern "C"
