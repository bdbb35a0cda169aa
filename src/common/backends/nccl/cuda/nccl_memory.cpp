#include "common/backends/nccl/cuda/nccl_backend_class.h"
#include "common/backends/nccl/cuda/nccl_library.h"
#include "common/backends/nccl/device_kernels.h"
#include "common/base/error.h"
#include "common/base/units.h"
#include "kernels/host.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

namespace busbar {
Backend::MemoryLimit NcclBackend::memory_limit(const Collective&) const {
  // NCCL's own buffers do not grow with the message, so all collectives share one limit.
  MemoryLimit least;
  for (const Local& l : locals_) {
    use_device(l);
    const GpuMemory m = gpu_memory();
    MemoryLimit limit = gpu_memory_limit(m.free_bytes, m.total_bytes, config_.ranks_per_gpu);
    if (least.arithmetic.empty() || limit.bytes_per_rank < least.bytes_per_rank) least = std::move(limit);
  }
  return least;
}

void* NcclBackend::allocate(int local, std::size_t nbytes) {
  Local& l = locals_[local];
  use_device(l);
  void* memory = nullptr;
  const ncclResult_t result = nccl_->MemAlloc(&memory, nbytes);
  if (result != ncclSuccess) {
    (void)cudaGetLastError();
    const GpuMemory m = gpu_memory();
    throw Error(ExitCode::cuda, fmt::format("ncclMemAlloc of {} on GPU {} failed ({}), {} of {} are free: lower -e",
                                            format_bytes(nbytes), l.device, nccl_->GetErrorString(result),
                                            format_bytes(m.free_bytes), format_bytes(m.total_bytes)));
  }
  l.allocations.push_back({.memory = memory, .nbytes = nbytes});
  return memory;
}

void NcclBackend::borrow(int local, void* memory, std::size_t nbytes) {
  locals_[local].allocations.push_back({.memory = memory, .nbytes = nbytes, .borrowed = true});
}

void NcclBackend::register_memory() {
  const InNccl in_nccl(*this);
  if (config_.local_register > 0) {
    // Registering windows is a collective call: one group for all ranks of this process, or the first would wait for
    // the second.
    NcclGroup group(*nccl_);
    for (Local& l : locals_) {
      use_device(l);
      for (Allocation& a : l.allocations) {
        if (std::exchange(a.registered, true)) continue;
        if (config_.local_register == 1) {
          BUSBAR_NCCL(*nccl_, CommRegister(l.comm, a.memory, a.nbytes, &a.handle));
        } else {
          constexpr int kSymmetric = 1;  // NCCL_WIN_COLL_SYMMETRIC
          BUSBAR_NCCL(*nccl_, CommWindowRegister(l.comm, a.memory, a.nbytes, &a.window, kSymmetric));
        }
      }
    }
    group.end();
  }
  if (device_collective_) make_device_communicators();
  for (Local& l : locals_) {
    use_device(l);
    l.free_after_buffers = gpu_memory().free_bytes;
  }
}

/// Once: the data that kernels need of a communicator do not depend on its windows.
void NcclBackend::make_device_communicators() {
  if (locals_.front().device_api) return;
  const int implementation = config_.device_implementation;
  try {
    NcclGroup group(*nccl_);
    for (Local& l : locals_) {
      use_device(l);
      l.device_api = std::make_unique<DeviceCommunicator>(*nccl_, l.comm, *device_collective_, implementation,
                                                          config_.device_cta_count);
    }
    group.end();
  } catch (const Error& e) {
    for (Local& l : locals_) l.device_api.reset();
    const std::string_view lacking =
        needs_multimem(*device_collective_, implementation)  ? "switches that add (multimem)"
        : needs_network(*device_collective_, implementation) ? "a network that GPUs drive (GIN)"
        : dynamic_cast<const RefusedError*>(&e) != nullptr   ? "GPUs that all load and store in each other's memory"
                                                             : "";
    if (lacking.empty()) throw;
    throw_not_possible(fmt::format("-D {} needs {}: {}", implementation, lacking, e.what()));
  }
}

void NcclBackend::deregister(Local& local, Allocation& allocation) noexcept {
  ncclResult_t result = ncclSuccess;
  if (allocation.handle != nullptr) result = nccl_->CommDeregister(local.comm, allocation.handle);
  if (allocation.window != nullptr) result = nccl_->CommWindowDeregister(local.comm, allocation.window);
  if (result != ncclSuccess) std::fprintf(stderr, "NCCL: rank %d cannot deregister a buffer\n", local.rank);
}

void NcclBackend::release(int local, void* memory) noexcept {
  // After an abort the communicator is gone and the GPU may never answer again.
  if (aborted_) return;
  Local& l = locals_[local];
  const auto found = std::ranges::find_if(l.allocations, [&](const Allocation& a) { return a.memory == memory; });
  if (found == l.allocations.end()) return;
  BUSBAR_CUDA_NOEXCEPT(cudaSetDevice(l.device));
  deregister(l, *found);
  if (!found->borrowed && nccl_->MemFree(memory) != ncclSuccess)
    std::fprintf(stderr, "NCCL: rank %d cannot free a buffer\n", l.rank);
  l.allocations.erase(found);
}

std::vector<Backend::MemoryUse> NcclBackend::memory_use() const {
  std::int64_t init = 0;
  std::int64_t buffers = 0;
  std::int64_t collective = 0;
  for (const Local& l : locals_) {
    use_device(l);
    const std::int64_t now = gpu_memory().free_bytes;
    init = std::max(init, l.free_before_init - l.free_after_init);
    buffers = std::max(buffers, l.free_after_init - l.free_after_buffers);
    collective = std::max(collective, l.free_after_buffers - now);
  }
  return {{"Initialization", init}, {"User-Allocated", buffers}, {"Collective", collective}};
}

// The kernels report a cudaError_t as int, so that their header needs no CUDA.

void NcclBackend::fill(int local, const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst) {
  if (count == 0) return;
  on_stream(local, "filling a buffer",
            [&](cudaStream_t stream) { return fill_on_device(pattern, rank, first, count, dst, stream); });
}

void NcclBackend::fill_neutral(int local, const Pattern& pattern, std::size_t count, void* dst) {
  if (count == 0) return;
  on_stream(local, "filling a buffer",
            [&](cudaStream_t stream) { return fill_neutral_on_device(pattern, count, dst, stream); });
}

void NcclBackend::set_bytes(int local, void* dst, unsigned char byte, std::size_t nbytes) {
  if (nbytes == 0) return;
  on_stream(local, "setting a buffer", [&](cudaStream_t stream) { return cudaMemsetAsync(dst, byte, nbytes, stream); });
}

CheckResult NcclBackend::check(int local, const Pattern& pattern, std::span<const Block> blocks, const void* recv) {
  if (blocks.empty()) return {};
  Local& l = locals_[local];
  use_device(l);
  if (blocks.size() > l.blocks_capacity) {
    l.blocks_capacity = std::max(blocks.size(), 2 * l.blocks_capacity);
    l.blocks = allocate_on_device(l.blocks_capacity * sizeof(Block));
  }
  auto* const blocks_on_device = static_cast<Block*>(l.blocks.get());
  auto* const result = static_cast<CheckResult*>(l.result.get());
  on_stream(local, "checking a buffer", [&](cudaStream_t stream) {
    BUSBAR_CUDA(cudaMemcpyAsync(blocks_on_device, blocks.data(), blocks.size_bytes(), cudaMemcpyHostToDevice, stream));
    BUSBAR_CUDA(static_cast<cudaError_t>(reset_check_on_device(result, stream)));
    BUSBAR_CUDA(
        static_cast<cudaError_t>(check_on_device(pattern, blocks_on_device, blocks.size(), recv, result, stream)));
    return cudaMemcpyAsync(l.host_result.get(), result, sizeof(CheckResult), cudaMemcpyDeviceToHost, stream);
  });
  CheckResult found;
  std::memcpy(&found, l.host_result.get(), sizeof found);
  return found;
}

void NcclBackend::copy_to_host(int local, void* dst, const void* src, std::size_t nbytes) {
  on_stream(local, "copying a buffer to the host",
            [&](cudaStream_t stream) { return cudaMemcpyAsync(dst, src, nbytes, cudaMemcpyDeviceToHost, stream); });
}

void NcclBackend::copy_from_host(int local, void* dst, const void* src, std::size_t nbytes) {
  on_stream(local, "copying a buffer from the host",
            [&](cudaStream_t stream) { return cudaMemcpyAsync(dst, src, nbytes, cudaMemcpyHostToDevice, stream); });
}

}  // namespace busbar
