// The suite's device kernels as functions that a stream calls, over the libcudart.so of fakes/cudart: what fills and
// checks buffers when the real NCCL runs without a GPU.

#include "common/backends/nccl/cuda/device_collectives.h"
#include "fakes/fake_gpu.h"
#include "kernels/host.h"

#include <cuda_runtime_api.h>
#include <nccl_device.h>

#include <functional>
#include <memory>
#include <utility>

namespace {

int enqueue(void* stream, std::function<void()> work) {
  auto held = std::make_unique<std::function<void()>>(std::move(work));
  const cudaError_t launched = cudaLaunchHostFunc(
      static_cast<cudaStream_t>(stream),
      [](void* argument) {
        const std::unique_ptr<std::function<void()>> mine(static_cast<std::function<void()>*>(argument));
        (*mine)();
      },
      held.get());
  if (launched == cudaSuccess) (void)held.release();
  return launched;
}

}  // namespace

// This runtime refuses where CUDA does, and counts nothing.
int fake_gpu::refusals() { return 0; }
void fake_gpu::refuse(const std::string&) {}
std::string fake_gpu::left_behind() { return {}; }

namespace busbar {

int fill_on_device(const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst, void* stream) {
  return enqueue(stream, [=] { fill(pattern, rank, first, count, dst); });
}
int fill_neutral_on_device(const Pattern& pattern, std::size_t count, void* dst, void* stream) {
  return enqueue(stream, [=] { fill_neutral(pattern, count, dst); });
}
int check_on_device(const Pattern& pattern, const Block* blocks, std::size_t nblocks, const void* recv,
                    CheckResult* result, void* stream) {
  return enqueue(stream, [=] {
    for (std::size_t i = 0; i < nblocks; ++i) result->merge(check(pattern, blocks[i], recv));
  });
}
int reset_check_on_device(CheckResult* result, void* stream) {
  return enqueue(stream, [=] { *result = CheckResult{}; });
}
int preload_device_kernels() { return 0; }

NcclHeader device_collectives_header() { return {NCCL_VERSION_CODE, sizeof(ncclDevComm)}; }
int prepare_device_collective(CollectiveId, int, int*) { return cudaErrorNoKernelImageForDevice; }
int launch_device_collective(const DeviceCall&, const ncclDevComm&, void*) { return cudaErrorNoKernelImageForDevice; }

}  // namespace busbar
