// Stand-ins for the CUDA runtime and the device kernels on host memory: the NCCL backend and everything above it then
// run on machines without a GPU. FAKE_GPUS (default 8) devices. Streams keep their order and run when they are queried;
// nothing runs earlier, so that what reads before it waits finds old data.

#include "fakes/fake_gpu.h"
#include "kernels/device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

using fake_gpu::Work;

struct CUstream_st {
  std::deque<Work> work;
  bool capturing = false;
  std::vector<std::function<Work()>> captured;
};
struct CUevent_st {
  std::chrono::steady_clock::time_point when;
};
struct CUgraph_st {
  std::vector<std::function<Work()>> makers;
};
struct CUgraphExec_st {
  std::vector<std::function<Work()>> makers;
};

namespace {

constexpr int kMaxDevices = 64;

struct Machine {
  std::recursive_mutex mutex;
  std::set<CUstream_st*> streams;
  std::array<CUstream_st, kMaxDevices> default_streams;
  std::size_t used_bytes = 0;
};

Machine& machine() {
  static Machine m;
  return m;
}

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

int device_count() {
  const char* text = std::getenv("FAKE_GPUS");
  return text != nullptr ? std::atoi(text) : 8;
}

CUstream_st* real(CUstream_st* stream) {
  return stream != nullptr ? stream : &machine().default_streams[static_cast<std::size_t>(current_device)];
}

/// Lets every stream go as far as it can.
void pump() {
  Machine& m = machine();
  std::vector<CUstream_st*> all(m.streams.begin(), m.streams.end());
  for (CUstream_st& s : m.default_streams) all.push_back(&s);
  for (bool moved = true; moved;) {
    moved = false;
    for (CUstream_st* s : all) {
      while (!s->work.empty() && s->work.front()()) {
        s->work.pop_front();
        moved = true;
      }
    }
  }
}

void push_simple(CUstream_st* stream, std::function<void()> what) {
  fake_gpu::push(stream, [what = std::move(what)]() -> Work {
    return [what] {
      what();
      return true;
    };
  });
}

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

}  // namespace

void fake_gpu::push(CUstream_st* stream, std::function<Work()> make) {
  const std::lock_guard lock(machine().mutex);
  CUstream_st* s = real(stream);
  if (s->capturing) {
    s->captured.push_back(std::move(make));
  } else {
    s->work.push_back(make());
  }
}

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return *count > 0 ? cudaSuccess : fail(cudaErrorNoDevice);
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaErrorFake"; }
const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "a fake error"; }

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return fail(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Fake GPU");
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", 0xA0 + device);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *total_bytes = std::size_t{8} << 30;
  *free_bytes = *total_bytes - machine().used_bytes;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t nbytes) {
  *memory = std::aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096);
  std::memset(*memory, 0x5E, nbytes);
  const std::lock_guard lock(machine().mutex);
  machine().used_bytes += nbytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) { return std::free(memory), cudaSuccess; }
cudaError_t cudaHostAlloc(void** memory, std::size_t nbytes, unsigned) {
  return *memory = std::malloc(nbytes), cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) { return std::free(memory), cudaSuccess; }

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t nbytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (kind == cudaMemcpyHostToDevice) {
    // Pageable memory is staged before the call returns.
    const auto* const bytes = static_cast<const unsigned char*>(src);
    auto staged = std::make_shared<std::vector<unsigned char>>(bytes, bytes + nbytes);
    push_simple(stream, [=] { std::memcpy(dst, staged->data(), nbytes); });
  } else {
    push_simple(stream, [=] { std::memmove(dst, src, nbytes); });
  }
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* dst, int value, std::size_t nbytes, cudaStream_t stream) {
  push_simple(stream, [=] { std::memset(dst, value, nbytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  const std::lock_guard lock(machine().mutex);
  machine().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(machine().mutex);
  if (!stream->work.empty()) std::fprintf(stderr, "fake CUDA: a stream with pending work is destroyed\n");
  machine().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(machine().mutex);
  CUstream_st* s = real(stream);
  if (s->capturing) return fail(cudaErrorStreamCaptureUnsupported);
  pump();
  return s->work.empty() ? cudaSuccess : fail(cudaErrorNotReady);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr) return fail(cudaErrorStreamCaptureUnsupported);
  stream->capturing = true;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  stream->capturing = false;
  *graph = new CUgraph_st{std::move(stream->captured)};
  stream->captured.clear();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->makers};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  for (const auto& make : exec->makers) fake_gpu::push(stream, make);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return delete exec, cudaSuccess; }

cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new CUevent_st, cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  push_simple(stream, [=] { event->when = std::chrono::steady_clock::now(); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* elapsed_ms, cudaEvent_t from, cudaEvent_t to) {
  *elapsed_ms = std::chrono::duration<float, std::milli>(to->when - from->when).count();
  return cudaSuccess;
}

}  // extern "C"

namespace busbar {

int fill_on_device(const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst, void* stream) {
  push_simple(static_cast<CUstream_st*>(stream), [=] { fill(pattern, rank, first, count, dst); });
  return 0;
}

int fill_neutral_on_device(const Pattern& pattern, std::size_t count, void* dst, void* stream) {
  push_simple(static_cast<CUstream_st*>(stream), [=] { fill_neutral(pattern, count, dst); });
  return 0;
}

int check_on_device(const Pattern& pattern, const Block* blocks, std::size_t nblocks, const void* recv,
                    CheckResult* result, void* stream) {
  push_simple(static_cast<CUstream_st*>(stream), [=] {
    for (std::size_t i = 0; i < nblocks; ++i) result->merge(check(pattern, blocks[i], recv));
  });
  return 0;
}

int reset_check_on_device(CheckResult* result, void* stream) {
  push_simple(static_cast<CUstream_st*>(stream), [=] { *result = CheckResult{}; });
  return 0;
}

int preload_device_kernels() { return 0; }

}  // namespace busbar
