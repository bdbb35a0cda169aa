// Kernels: registered by the libraries that were compiled with them, launched in order, and over at once. What NCCL's
// host waits for is done in their place. FAKE_NO_IMAGE=1: none was compiled for this GPU.

#include "fakes/cudart/cudart.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>

namespace {

using cudart::done;
using cudart::Kernel;

struct Kernels {
  std::mutex mutex;
  std::map<const void*, Kernel> by_stub;
};
Kernels& kernels() {
  static auto* const all = new Kernels;
  return *all;
}

struct Shape {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<Shape> configurations;

const Kernel* find(const void* stub) {
  const std::lock_guard lock(kernels().mutex);
  const auto found = kernels().by_stub.find(stub);
  return found != kernels().by_stub.end() ? &found->second : nullptr;
}

bool lacks_image() { return cudart::setting("FAKE_NO_IMAGE", 0) != 0; }

cudaError_t launch(const Kernel* kernel, cudaStream_t stream, std::vector<std::byte> arguments, const char* call) {
  if (kernel == nullptr) return done(cudaErrorInvalidDeviceFunction, call);
  if (lacks_image()) return done(cudaErrorNoKernelImageForDevice, call);
  const CUstream_st* const at = cudart::stream_of(stream);
  if (at == nullptr || at->device != cudart::current_device()) return done(cudaErrorInvalidResourceHandle, call);
  return cudart::submit_work(
      stream, [kernel, arguments = std::move(arguments)] { cudart::run_kernel(*kernel, arguments); }, call);
}

/// The arguments as one buffer, if the caller gave them so.
std::vector<std::byte> buffer_of(void** extra) {
  const std::byte* data = nullptr;
  std::size_t nbytes = 0;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) data = static_cast<const std::byte*>(extra[1]);
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) nbytes = *static_cast<const std::size_t*>(extra[1]);
  }
  return {data, data + nbytes};
}

template <class T>
T read(const std::vector<std::byte>& from, std::size_t at) {
  T value{};
  if (at + sizeof value <= from.size()) std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

/// NCCL's ncclDevProfiler: what a profiler that asks for kernel events waits for, by channel.
struct Event {
  std::uint64_t counter, timestamp;
};
constexpr std::size_t kEvents = 64;

/// The counters of all channels that a field of the communicator points to; null: a version without them.
Event* counters_of(const std::byte* communicator, std::size_t field) {
  constexpr std::size_t kChannels = 64;
  void* pointer = nullptr;
  std::memcpy(&pointer, communicator + field, sizeof pointer);
  const cudart::Range range = cudart::range_at(pointer);
  const bool fits = range.base == pointer && range.device == cudart::kHost;
  return fits && range.nbytes >= kChannels * kEvents * sizeof(Event) ? static_cast<Event*>(pointer) : nullptr;
}

void count_work(Event* channels, int channel, std::uint64_t last) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  volatile Event& event = channels[static_cast<std::size_t>(channel) * kEvents + last % kEvents];
  event.timestamp = static_cast<std::uint64_t>(ns);
  event.counter = last;
}

/// ncclDevKernelArgs from 2.27 on: the device's communicator, the channels, and from 32 on each channel's batches of
/// works, which jump to the next; offsets in include/device.h. Each work of a channel has a number of its own.
void finish_works(const std::vector<std::byte>& arguments) {
  constexpr std::size_t kBatches = 32, kBatchBytes = 16, kStarted = 72, kCompleted = 80;
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, std::uint64_t> works;
  const auto* const communicator = read<const std::byte*>(arguments, 0);
  Event* const started = counters_of(communicator, kStarted);
  Event* const completed = counters_of(communicator, kCompleted);
  if (started == nullptr || completed == nullptr) return;
  std::size_t first = kBatches;
  for (auto channels = read<std::uint64_t>(arguments, 8); channels != 0; channels &= channels - 1) {
    const int channel = std::countr_zero(channels);
    for (std::size_t at = first;;) {
      const unsigned jump = read<std::uint32_t>(arguments, at) & 0x3FFFU;
      for (int i = std::popcount(read<std::uint64_t>(arguments, at + 8)); i > 0; --i) {
        const std::lock_guard lock(mutex);
        const std::uint64_t number = ++works[{communicator, channel}];
        count_work(started, channel, number);
        count_work(completed, channel, number);
      }
      if (jump == 0) break;
      at += jump * kBatchBytes;
    }
    first += kBatchBytes;
  }
}

}  // namespace

void cudart::run_kernel(const Kernel& kernel, const std::vector<std::byte>& arguments) {
  if (kernel.name.find("ncclDevKernel") != std::string::npos && !arguments.empty()) finish_works(arguments);
}

extern "C" {

void** __cudaRegisterFatBinary(void* binary) { return static_cast<void**>(binary); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const std::lock_guard lock(kernels().mutex);
  kernels().by_stub[stub] = {name};
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (configurations.empty()) return done(cudaErrorInvalidValue);
  const Shape shape = configurations.back();
  configurations.pop_back();
  *grid = shape.grid;
  *block = shape.block;
  *shared = shape.shared;
  *static_cast<cudaStream_t*>(stream) = shape.stream;
  return done(cudaSuccess);
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(find(stub)));
  return done(*kernel != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return launch(reinterpret_cast<const Kernel*>(kernel), stream, {}, __func__);
}
cudaError_t cudaLaunchKernel(const void* stub, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return launch(find(stub), stream, {}, __func__);
}
/// NCCL up to 2.20 adds its kernels to a graph by itself.
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                   std::size_t count, const cudaKernelNodeParams* parameters) {
  if (find(parameters->func) == nullptr) return done(cudaErrorInvalidDeviceFunction);
  if (lacks_image()) return done(cudaErrorNoKernelImageForDevice);
  *node = cudart::add_node(graph, []() -> cudart::Work { return [] {}; }, {after, after + count});
  return done(cudaSuccess);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void**) {
  return launch(find(stub), config->stream, {}, __func__);
}
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* stub) {
  *function = reinterpret_cast<cudaFunction_t>(const_cast<Kernel*>(find(stub)));
  return done(*function != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) {
  *attributes = {};
  if (find(stub) == nullptr) return done(cudaErrorInvalidDeviceFunction);
  if (lacks_image()) return done(cudaErrorNoKernelImageForDevice);
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 96;
  attributes->binaryVersion = static_cast<int>(cudart::setting("FAKE_CAPABILITY", 90));
  return done(cudaSuccess);
}
cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute, int) {
  return done(find(stub) != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void** extra) {
  const cudaError_t launched =
      launch(reinterpret_cast<const Kernel*>(function), config->hStream, buffer_of(extra), __func__);
  if (launched != cudaSuccess) return static_cast<CUresult>(launched);
  for (unsigned i = 0; i < config->numAttrs; ++i) {  // at its completion: a later time than CUDA's
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) continue;
    const cudaError_t recorded = cudaEventRecord(config->attrs[i].value.launchCompletionEvent.event, config->hStream);
    if (recorded != cudaSuccess) return static_cast<CUresult>(recorded);
  }
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream stream, void**, void** extra) {
  return static_cast<CUresult>(launch(reinterpret_cast<const Kernel*>(function), stream, buffer_of(extra), __func__));
}

}  // extern "C"
