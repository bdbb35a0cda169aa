// Stand-ins for the CUDA runtime and the device kernels on host memory: the NCCL backend and everything above it then
// run on machines without a GPU. FAKE_GPUS (default 8) devices of 8 GiB. Streams keep their order and run when they are
// queried; nothing runs earlier, so that what reads before it waits finds old data. Streams, events and memory belong
// to a device, and what CUDA refuses is refused (CUDA C++ Programming Guide, "Stream and Event Behavior"; Runtime API,
// "Stream Management"): strictness_test.cpp breaks each rule. FAKE_CAPABILITY (90): below 75 no kernel was compiled for
// them. FAKE_EXCLUSIVE=FOLDER: compute mode Exclusive_Process, with a lock file per device in it.

#include "fakes/fake_gpu.h"
#include "kernels/host.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <nccl_device.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

using fake_gpu::Work;
using Makers = std::vector<std::function<Work()>>;

struct CUstream_st {
  int device = 0;
  std::deque<Work> work;
  bool capturing = false;
  bool broken = false;  ///< a call that no capture may hold came in between
  std::thread::id captured_by;
  Makers captured;
};
struct CUevent_st {
  int device = 0;
  bool recorded = false;
  bool in_graph = false;
  bool over = false;
  std::chrono::steady_clock::time_point when;
};
struct CUgraph_st {
  Makers makers;
};
struct CUgraphExec_st {
  Makers makers;
};

namespace {

constexpr int kMaxDevices = 64;
constexpr std::size_t kDeviceBytes = std::size_t{8} << 30;

struct Machine {
  std::recursive_mutex mutex;
  std::set<CUstream_st*> streams;
  std::array<CUstream_st, kMaxDevices> default_streams;
  std::map<const std::byte*, fake_gpu::Memory> memory;  ///< by base
  std::array<std::size_t, kMaxDevices> used_bytes{};
  int events = 0;
  int graphs = 0;

  Machine() {
    for (int d = 0; d < kMaxDevices; ++d) default_streams[static_cast<std::size_t>(d)].device = d;
  }
};

Machine& machine() {
  static Machine m;
  return m;
}

std::atomic<int> g_refusals{0};
std::atomic<bool> g_forgiven{false};
thread_local int current_device = 0;
thread_local bool has_chosen = false;
thread_local cudaError_t last_error = cudaSuccess;

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

int device_count() { return setting("FAKE_GPUS", 8); }

CUstream_st* real(CUstream_st* stream, int device) {
  return stream != nullptr ? stream : &machine().default_streams[static_cast<std::size_t>(device)];
}

/// Whether this process may have a context on the device, which it then keeps.
bool may_enter(int device) {
  const char* const folder = std::getenv("FAKE_EXCLUSIVE");
  if (folder == nullptr) return true;
  static std::map<int, int> held;
  const std::lock_guard lock(machine().mutex);
  if (held.contains(device)) return true;
  const int fd = open((folder + ("/" + std::to_string(device))).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  return flock(fd, LOCK_EX | LOCK_NB) == 0 && held.emplace(device, fd).second;
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

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

cudaError_t fail(cudaError_t error, const char* why) {
  fake_gpu::refuse(why);
  return fail(error);
}

cudaError_t push_simple(CUstream_st* stream, int device, std::function<void()> what) {
  const auto make = [what = std::move(what)]() -> Work {
    return [what] {
      what();
      return true;
    };
  };
  if (fake_gpu::push(stream, device, make)) return cudaSuccess;
  return fail(cudaErrorInvalidResourceHandle, "work of one device on a stream of another");
}

/// A kernel of the current device that touches the memory.
cudaError_t launch(CUstream_st* stream, const void* memory, std::size_t nbytes, std::function<void()> what) {
  if (!fake_gpu::may_touch(current_device, memory, nbytes)) {
    return fail(cudaErrorIllegalAddress, "a kernel touches memory that is not its device's");
  }
  return push_simple(stream, current_device, std::move(what));
}

/// cudaMalloc and its like may synchronize, which a thread that captures must not: its captures break.
bool breaks_capture() {
  bool broken = false;
  for (CUstream_st* s : machine().streams) {
    if (!s->capturing || s->captured_by != std::this_thread::get_id()) continue;
    s->broken = broken = true;
  }
  return broken;
}

constexpr const char* kInCapture = "memory is taken or given back by a thread that captures";

cudaError_t allocate(void** memory, std::size_t nbytes, int device) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  if (breaks_capture()) return fail(cudaErrorStreamCaptureUnsupported, kInCapture);
  if (device != fake_gpu::kHost) {
    std::size_t& used = m.used_bytes[static_cast<std::size_t>(device)];
    if (nbytes > kDeviceBytes - used) return fail(cudaErrorMemoryAllocation);
    used += nbytes;
  }
  *memory = std::aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096);
  std::memset(*memory, 0x5E, nbytes);
  const auto* const base = static_cast<const std::byte*>(*memory);
  m.memory[base] = {base, nbytes, device};
  return cudaSuccess;
}

cudaError_t give_back(void* memory, bool of_host) {
  if (memory == nullptr) return cudaSuccess;
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  if (breaks_capture()) return fail(cudaErrorStreamCaptureUnsupported, kInCapture);
  const auto found = m.memory.find(static_cast<const std::byte*>(memory));
  if (found == m.memory.end() || (found->second.device == fake_gpu::kHost) != of_host) {
    return fail(cudaErrorInvalidValue, "memory is given back that was not taken, or twice, or otherwise");
  }
  if (!of_host) m.used_bytes[static_cast<std::size_t>(found->second.device)] -= found->second.nbytes;
  m.memory.erase(found);
  std::free(memory);
  return cudaSuccess;
}

/// Whether a copy's end on a device lies within an allocation of one; copies may cross devices.
bool may_copy(const void* address, std::size_t nbytes) {
  return fake_gpu::may_touch(fake_gpu::memory_at(address).device, address, nbytes);
}

}  // namespace

bool fake_gpu::push(CUstream_st* stream, int device, const std::function<Work()>& make) {
  const std::lock_guard lock(machine().mutex);
  CUstream_st* s = real(stream, device);
  if (s->device != device) return false;
  if (s->capturing) {
    s->captured.push_back(make);
  } else {
    s->work.push_back(make());
  }
  return true;
}

fake_gpu::Memory fake_gpu::memory_at(const void* address) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  const auto* const at = static_cast<const std::byte*>(address);
  auto found = m.memory.upper_bound(at);
  if (found == m.memory.begin()) return {};
  --found;
  return at < found->first + found->second.nbytes ? found->second : Memory{};
}

bool fake_gpu::may_touch(int device, const void* address, std::size_t nbytes) {
  const Memory memory = memory_at(address);
  const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(address) - memory.base);
  return memory.nbytes > 0 && (memory.device == device || memory.device == kHost) && nbytes <= memory.nbytes - at;
}

void fake_gpu::take_memory(int device, std::int64_t nbytes) {
  const std::lock_guard lock(machine().mutex);
  machine().used_bytes[static_cast<std::size_t>(device)] += static_cast<std::size_t>(nbytes);
}

int fake_gpu::chosen_device() { return has_chosen ? current_device : -1; }

void fake_gpu::refuse(const std::string& what) {
  ++g_refusals;
  std::fprintf(stderr, "stand-in: %s\n", what.c_str());
}

int fake_gpu::refusals() { return g_refusals; }

void fake_gpu::forgive_what_is_left() { g_forgiven = true; }

std::string fake_gpu::left_behind() {
  if (g_forgiven) return {};
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  std::string text;
  const auto tell = [&](std::size_t count, const char* what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  tell(m.streams.size(), "streams");
  tell(static_cast<std::size_t>(m.events), "events");
  tell(static_cast<std::size_t>(m.graphs), "graphs");
  tell(m.memory.size(), "allocations");
  return text;
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
  if (!may_enter(device)) return fail(cudaErrorDevicesUnavailable);
  current_device = device;
  has_chosen = true;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Fake GPU");
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const int capability = setting("FAKE_CAPABILITY", 90);
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? capability / 10 : capability % 10;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", 0xA0 + device);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const std::lock_guard lock(machine().mutex);
  *total_bytes = kDeviceBytes;
  *free_bytes = kDeviceBytes - machine().used_bytes[static_cast<std::size_t>(current_device)];
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t nbytes) { return allocate(memory, nbytes, current_device); }
cudaError_t cudaFree(void* memory) { return give_back(memory, false); }
cudaError_t cudaHostAlloc(void** memory, std::size_t nbytes, unsigned) {
  return allocate(memory, nbytes, fake_gpu::kHost);
}
cudaError_t cudaFreeHost(void* memory) { return give_back(memory, true); }

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t nbytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (nbytes == 0) return cudaSuccess;
  if ((kind != cudaMemcpyHostToDevice && !may_copy(src, nbytes)) ||
      (kind != cudaMemcpyDeviceToHost && !may_copy(dst, nbytes))) {
    return fail(cudaErrorInvalidValue, "a copy leaves the memory of its device");
  }
  // "A memory copy will succeed even if it is issued to a stream that is not associated to the current device."
  const int device = real(stream, current_device)->device;
  if (kind != cudaMemcpyHostToDevice) return push_simple(stream, device, [=] { std::memmove(dst, src, nbytes); });
  // Pageable memory is staged before the call returns.
  const auto* const bytes = static_cast<const unsigned char*>(src);
  auto staged = std::make_shared<std::vector<unsigned char>>(bytes, bytes + nbytes);
  return push_simple(stream, device, [=] { std::memcpy(dst, staged->data(), nbytes); });
}
cudaError_t cudaMemsetAsync(void* dst, int value, std::size_t nbytes, cudaStream_t stream) {
  return launch(stream, dst, nbytes, [=] { std::memset(dst, value, nbytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  (*stream)->device = current_device;
  const std::lock_guard lock(machine().mutex);
  machine().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(machine().mutex);
  if (machine().streams.erase(stream) == 0) return fail(cudaErrorInvalidResourceHandle, "a stream ends twice");
  const bool busy = !stream->work.empty();
  delete stream;
  return busy ? fail(cudaErrorNotReady, "a stream with pending work is destroyed") : cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(machine().mutex);
  CUstream_st* s = real(stream, current_device);
  if (s->capturing) return fail(cudaErrorStreamCaptureUnsupported, "a stream that captures is asked for its state");
  pump();
  return s->work.empty() ? cudaSuccess : fail(cudaErrorNotReady);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr) return fail(cudaErrorStreamCaptureUnsupported, "the default stream cannot be captured");
  const std::lock_guard lock(machine().mutex);
  if (stream->capturing) return fail(cudaErrorIllegalState, "a stream that captures begins to");
  stream->capturing = true;
  stream->broken = false;
  stream->captured_by = std::this_thread::get_id();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::lock_guard lock(machine().mutex);
  if (!stream->capturing) return fail(cudaErrorIllegalState, "a capture ends that never began");
  if (stream->captured_by != std::this_thread::get_id()) {
    return fail(cudaErrorStreamCaptureWrongThread, "another thread began the capture");
  }
  stream->capturing = false;
  Makers captured = std::exchange(stream->captured, {});
  if (stream->broken) return fail(cudaErrorStreamCaptureInvalidated);
  ++machine().graphs;
  *graph = new CUgraph_st{std::move(captured)};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (graph == nullptr) return fail(cudaErrorInvalidValue, "a graph that does not exist is instantiated");
  const std::lock_guard lock(machine().mutex);
  ++machine().graphs;
  *exec = new CUgraphExec_st{graph->makers};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (exec == nullptr) return fail(cudaErrorInvalidValue, "a graph that does not exist is launched");
  const int device = real(stream, current_device)->device;
  for (const auto& make : exec->makers) fake_gpu::push(stream, device, make);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::lock_guard lock(machine().mutex);
  --machine().graphs;
  return delete graph, cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const std::lock_guard lock(machine().mutex);
  --machine().graphs;
  return delete exec, cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  const std::lock_guard lock(machine().mutex);
  // No rule of CUDA's: it takes time, and whoever has launched something has a clock running.
  for (const CUstream_st* s : machine().streams) {
    if (s->device == current_device && !s->work.empty()) {
      return fail(cudaErrorNotReady, "an event is made while work is under way");
    }
  }
  ++machine().events;
  *event = new CUevent_st;
  (*event)->device = current_device;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(machine().mutex);
  --machine().events;
  return delete event, cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(machine().mutex);
  CUstream_st* const s = real(stream, current_device);
  if (s->device != event->device) {
    return fail(cudaErrorInvalidResourceHandle, "an event of one device is recorded on a stream of another");
  }
  event->recorded = true;
  event->in_graph = s->capturing;
  event->over = false;
  return push_simple(stream, s->device, [event] {
    event->when = std::chrono::steady_clock::now();
    event->over = true;
  });
}
cudaError_t cudaEventElapsedTime(float* elapsed_ms, cudaEvent_t from, cudaEvent_t to) {
  const std::lock_guard lock(machine().mutex);
  for (const CUevent_st* e : {from, to}) {
    if (!e->recorded || e->in_graph || e->device != from->device) {
      return fail(cudaErrorInvalidResourceHandle, "a time between events of two devices, of a graph or never recorded");
    }
    if (!e->over) return fail(cudaErrorNotReady, "a time is asked for before its events are over");
  }
  *elapsed_ms = std::chrono::duration<float, std::milli>(to->when - from->when).count();
  return cudaSuccess;
}

}  // extern "C"

namespace busbar {
namespace {

cudaError_t launch_kernel(void* stream, const void* memory, std::size_t nbytes, std::function<void()> what) {
  return launch(static_cast<CUstream_st*>(stream), memory, nbytes, std::move(what));
}

}  // namespace

int fill_on_device(const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst, void* stream) {
  return launch_kernel(stream, dst, count * size_of(pattern.dtype), [=] { fill(pattern, rank, first, count, dst); });
}

int fill_neutral_on_device(const Pattern& pattern, std::size_t count, void* dst, void* stream) {
  return launch_kernel(stream, dst, count * size_of(pattern.dtype), [=] { fill_neutral(pattern, count, dst); });
}

int check_on_device(const Pattern& pattern, const Block* blocks, std::size_t nblocks, const void* recv,
                    CheckResult* result, void* stream) {
  if (!fake_gpu::may_touch(current_device, recv, 0)) return cudaErrorIllegalAddress;
  if (!fake_gpu::may_touch(current_device, blocks, nblocks * sizeof(Block))) return cudaErrorIllegalAddress;
  return launch_kernel(stream, result, sizeof *result, [=] {
    for (std::size_t i = 0; i < nblocks; ++i) result->merge(check(pattern, blocks[i], recv));
  });
}

int reset_check_on_device(CheckResult* result, void* stream) {
  return launch_kernel(stream, result, sizeof *result, [=] { *result = CheckResult{}; });
}

int preload_device_kernels() {
  return setting("FAKE_CAPABILITY", 90) < 75 ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

// FAKE_DEVICE_HEADER=VERSION:NBYTES: the kernels were compiled with another header than the host's code.
NcclHeader device_collectives_header() {
  NcclHeader header{NCCL_VERSION_CODE, sizeof(ncclDevComm)};
  if (const char* text = std::getenv("FAKE_DEVICE_HEADER")) {
    std::sscanf(text, "%d:%zu", &header.version, &header.communicator_nbytes);
  }
  return header;
}

int prepare_device_collective(CollectiveId, int, int* blocks) { return *blocks = 64, 0; }

int launch_device_collective(const DeviceCall& call, const ncclDevComm& communicator, void* stream) {
  const auto* const device = reinterpret_cast<const fake_gpu::DeviceComm*>(communicator.windowTable);
  return device->launch(*device, call, static_cast<CUstream_st*>(stream));
}

}  // namespace busbar
