// Catches: a runtime without a GPU that lets pass what CUDA refuses, runs work before or beside its order, or does not
// share memory between processes, so that a real library over it is tested in a world that there is not.

#include "run_catch.h"

#include <catch2/catch.hpp>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

constexpr std::size_t kBytes = std::size_t{2} << 20;

template <class Function>
Function* driver(const char* name, Function*) {
  void* found = nullptr;
  cudaGetDriverEntryPointByVersion(name, &found, 13000, cudaEnableDefault, nullptr);
  return reinterpret_cast<Function*>(found);
}
#define DRIVER(name) driver(#name, static_cast<decltype(&name)>(nullptr))

void wait_for_flag(void* flag) {
  while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
}
void add_one(void* number) { ++*static_cast<int*>(number); }

struct Stream {
  explicit Stream(unsigned flags = cudaStreamNonBlocking) { cudaStreamCreateWithFlags(&handle, flags); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(handle); }
  cudaStream_t handle = nullptr;
};

/// Whether the function is true in another process, which has this one's memory as it is now.
template <class Function>
bool in_another_process(Function function) {
  const pid_t child = fork();
  if (child == 0) _exit(function() ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("streams keep their order, and wait for nothing but events") {
  Stream first, second;
  std::atomic<bool> open{false};
  int runs = 0;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  cudaLaunchHostFunc(first.handle, wait_for_flag, &open);
  cudaEventRecord(event, first.handle);
  CHECK(cudaStreamQuery(first.handle) == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
  cudaLaunchHostFunc(second.handle, add_one, &runs);
  CHECK(cudaStreamSynchronize(second.handle) == cudaSuccess);
  CHECK(runs == 1);
  cudaStreamWaitEvent(second.handle, event, 0);
  cudaLaunchHostFunc(second.handle, add_one, &runs);
  CHECK(cudaStreamQuery(second.handle) == cudaErrorNotReady);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  open = true;
  CHECK(cudaStreamSynchronize(second.handle) == cudaSuccess);
  CHECK(runs == 2);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
}

TEST_CASE("the default stream waits for blocking streams, and they for it") {
  Stream blocking(cudaStreamDefault), other;
  std::atomic<bool> open{false};
  cudaLaunchHostFunc(blocking.handle, wait_for_flag, &open);
  int runs = 0;
  cudaLaunchHostFunc(nullptr, add_one, &runs);
  CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(other.handle) == cudaSuccess);
  open = true;
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(runs == 1);
}

TEST_CASE("a graph runs what was captured at each launch, other streams' part in its place") {
  Stream origin, forked;
  int runs = 0;
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  REQUIRE(cudaStreamBeginCapture(origin.handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  cudaLaunchHostFunc(origin.handle, add_one, &runs);
  cudaEventRecord(event, origin.handle);
  CHECK(cudaEventQuery(event) == cudaErrorCapturedEvent);
  cudaStreamWaitEvent(forked.handle, event, 0);
  cudaLaunchHostFunc(
      forked.handle, [](void* number) { *static_cast<int*>(number) *= 10; }, &runs);
  cudaEventRecord(event, forked.handle);
  cudaStreamWaitEvent(origin.handle, event, 0);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(origin.handle, &graph) == cudaSuccess);
  CHECK(runs == 0);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  for (int i = 0; i < 2; ++i) cudaGraphLaunch(exec, origin.handle);
  CHECK(cudaStreamSynchronize(origin.handle) == cudaSuccess);
  CHECK(runs == 110);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaEventDestroy(event);
}

TEST_CASE("what synchronizes breaks a capture, unless the thread asked not to be bothered") {
  Stream stream;
  void* memory = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  CHECK(cudaMalloc(&memory, 8) == cudaSuccess);
  cudaThreadExchangeStreamCaptureMode(&mode);
  CHECK(cudaMalloc(&memory, 8) == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream.handle, &graph) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("another process opens device memory by its handle") {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, kBytes) == cudaSuccess);
  cudaIpcMemHandle_t handle;
  REQUIRE(cudaIpcGetMemHandle(&handle, memory) == cudaSuccess);
  CHECK(in_another_process([&] {
    void* there = nullptr;
    if (cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) return false;
    return std::strcpy(static_cast<char*>(there), "from the other") != nullptr;
  }));
  CHECK(std::string(static_cast<const char*>(memory)) == "from the other");
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
}

TEST_CASE("another process maps virtual memory that was exported, with its properties") {
  CUmemAllocationProp wanted{};
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(DRIVER(cuMemCreate)(&handle, kBytes, &wanted, 0) == CUDA_SUCCESS);
  CHECK(DRIVER(cuMemCreate)(&handle, 100, &wanted, 0) == CUDA_ERROR_INVALID_VALUE);
  int fd = -1;
  REQUIRE(DRIVER(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          CUDA_SUCCESS);
  const auto map = [](CUmemGenericAllocationHandle what) {
    CUdeviceptr at = 0;
    DRIVER(cuMemAddressReserve)(&at, kBytes, 0, 0, 0);
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {1}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DRIVER(cuMemMap)(at, kBytes, 0, what, 0);
    DRIVER(cuMemSetAccess)(at, kBytes, &access, 1);
    return reinterpret_cast<int*>(at);
  };
  int* const here = map(handle);
  CHECK(in_another_process([&] {
    CUmemGenericAllocationHandle imported = 0;
    CUmemAllocationProp got{};
    void* const number = reinterpret_cast<void*>(static_cast<std::size_t>(fd));
    const auto import_handle = DRIVER(cuMemImportFromShareableHandle);
    if (import_handle(&imported, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS) return false;
    DRIVER(cuMemGetAllocationPropertiesFromHandle)(&got, imported);
    *map(imported) = 42;
    return got.location.type == CU_MEM_LOCATION_TYPE_DEVICE && got.location.id == 1;
  }));
  CHECK(*here == 42);
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, here + 5) == cudaSuccess);
  CHECK((attributes.type == cudaMemoryTypeDevice && attributes.device == 1));
}

TEST_CASE("pageable memory is staged at the call; what leaves the machine is refused") {
  Stream stream;
  std::atomic<bool> open{false};
  void* memory = nullptr;
  cudaMalloc(&memory, 8);
  int value = 1;
  cudaLaunchHostFunc(stream.handle, wait_for_flag, &open);
  cudaMemcpyAsync(memory, &value, sizeof value, cudaMemcpyHostToDevice, stream.handle);
  value = 2;
  open = true;
  cudaStreamSynchronize(stream.handle);
  CHECK(*static_cast<int*>(memory) == 1);
  CHECK(cudaMemsetAsync(&value, 0, sizeof value, stream.handle) == cudaErrorInvalidValue);
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  CHECK(cudaMalloc(&memory, std::size_t{1} << 40) == cudaErrorMemoryAllocation);
  int count = 0;
  void* unknown = nullptr;
  CHECK((cudaGetDeviceCount(&count) == cudaSuccess && count == 8));
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSuccess;
  cudaGetDriverEntryPointByVersion("cuNoSuchThing", &unknown, 13000, cudaEnableDefault, &found);
  CHECK(found == cudaDriverEntryPointSymbolNotFound);
}

TEST_CASE("an environment makes other machines") {
  const auto has = [](const char* name, const char* value, auto right) {
    return in_another_process([&] { return setenv(name, value, 1) == 0 && right(); });
  };
  const auto count = [] {
    int n = 0;
    cudaGetDeviceCount(&n);
    return n;
  };
  CHECK(has("FAKE_NO_PEERS", "1", [] {
    int can = 1;
    return cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess && can == 0;
  }));
  CHECK(has("FAKE_CAPABILITY", "80", [] {
    int major = 0;
    return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess && major == 8;
  }));
  CHECK(has("FAKE_GPU_BYTES", "4096", [] {
    void* memory = nullptr;
    return cudaMalloc(&memory, 5000) == cudaErrorMemoryAllocation;
  }));
  CHECK(count() == 8);
}

int main(int argc, char** argv) { return run_catch(argc, argv); }
