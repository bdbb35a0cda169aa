#include "common/backends/nccl/cuda/nccl_backend_class.h"
#include "kernels/device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

namespace busbar {
namespace {

/// The kernels report a cudaError_t as int, so that their header needs no CUDA.
cudaError_t launched(int result) { return static_cast<cudaError_t>(result); }

}  // namespace

void NcclBackend::fill(int local, const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst) {
  if (count == 0) return;
  Local& l = locals_[local];
  use_device(l);
  BUSBAR_CUDA(launched(fill_on_device(pattern, rank, first, count, dst, l.stream.get())));
  await_one(local, "filling a buffer");
}

void NcclBackend::fill_neutral(int local, const Pattern& pattern, std::size_t count, void* dst) {
  if (count == 0) return;
  Local& l = locals_[local];
  use_device(l);
  BUSBAR_CUDA(launched(fill_neutral_on_device(pattern, count, dst, l.stream.get())));
  await_one(local, "filling a buffer");
}

void NcclBackend::set_bytes(int local, void* dst, unsigned char byte, std::size_t nbytes) {
  if (nbytes == 0) return;
  Local& l = locals_[local];
  use_device(l);
  BUSBAR_CUDA(cudaMemsetAsync(dst, byte, nbytes, l.stream.get()));
  await_one(local, "setting a buffer");
}

CheckResult NcclBackend::check(int local, const Pattern& pattern, std::span<const Block> blocks, const void* recv) {
  if (blocks.empty()) return {};
  Local& l = locals_[local];
  use_device(l);
  if (blocks.size() > l.blocks_capacity) {
    l.blocks_capacity = std::max(blocks.size(), 2 * l.blocks_capacity);
    l.blocks = allocate_on_device(l.blocks_capacity * sizeof(Block));
  }
  const cudaStream_t stream = l.stream.get();
  auto* const blocks_on_device = static_cast<Block*>(l.blocks.get());
  auto* const result = static_cast<CheckResult*>(l.result.get());
  BUSBAR_CUDA(cudaMemcpyAsync(blocks_on_device, blocks.data(), blocks.size_bytes(), cudaMemcpyHostToDevice, stream));
  BUSBAR_CUDA(launched(reset_check_on_device(result, stream)));
  BUSBAR_CUDA(launched(check_on_device(pattern, blocks_on_device, blocks.size(), recv, result, stream)));
  BUSBAR_CUDA(cudaMemcpyAsync(l.host_result.get(), result, sizeof(CheckResult), cudaMemcpyDeviceToHost, stream));
  await_one(local, "checking a buffer");
  CheckResult found;
  std::memcpy(&found, l.host_result.get(), sizeof found);
  return found;
}

void NcclBackend::copy_to_host(int local, void* dst, const void* src, std::size_t nbytes) {
  Local& l = locals_[local];
  use_device(l);
  BUSBAR_CUDA(cudaMemcpyAsync(dst, src, nbytes, cudaMemcpyDeviceToHost, l.stream.get()));
  await_one(local, "copying a buffer to the host");
}

void NcclBackend::copy_from_host(int local, void* dst, const void* src, std::size_t nbytes) {
  Local& l = locals_[local];
  use_device(l);
  BUSBAR_CUDA(cudaMemcpyAsync(dst, src, nbytes, cudaMemcpyHostToDevice, l.stream.get()));
  await_one(local, "copying a buffer from the host");
}

}  // namespace busbar
