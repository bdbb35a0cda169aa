// Catches: stand-ins that let pass what CUDA or NCCL refuse or answer by hanging, so that the NCCL backend passes its
// tests without a GPU and fails on the first one. Each case breaks a rule, beside the same thing done right.

#include "fakes/fake_gpu.h"
#include "kernels/host.h"
#include "run_catch.h"
#include "unit/temp_dir.h"

#include <catch2/catch.hpp>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <nccl.h>
#include <nccl_device.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using Catch::Contains;

// NCCL's from 2.29 on, which nccl.h need not have.
extern "C" {
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id);
ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* made,
                          ncclConfig_t* config);
}

namespace {

constexpr std::size_t kBytes = 4096;

/// A stream and a buffer of a GPU.
struct Gpu {
  explicit Gpu(int number) : device(number) {
    cudaSetDevice(device);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    ncclMemAlloc(&memory, 2 * kBytes);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    ncclMemFree(memory);
    cudaStreamDestroy(stream);
  }
  float* floats() const { return static_cast<float*>(memory); }

  int device;
  cudaStream_t stream = nullptr;
  void* memory = nullptr;
};

/// How the limit of a wait that NCCL has not is set for as long as this lives.
struct Impatience {
  Impatience() { setenv("FAKE_NCCL_PATIENCE_MS", "50", 1); }
  ~Impatience() { unsetenv("FAKE_NCCL_PATIENCE_MS"); }
};

/// Communicators of ranks on these GPUs, made in one group.
class Job {
 public:
  explicit Job(const std::vector<int>& devices) : comms(devices.size()) {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclGroupStart();
    for (std::size_t i = 0; i < devices.size(); ++i) {
      cudaSetDevice(devices[i]);
      ncclCommInitRankConfig(&comms[i], static_cast<int>(devices.size()), id, static_cast<int>(i), &config);
    }
    joined = ncclGroupEnd();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  }

  std::vector<ncclComm_t> comms;
  ncclResult_t joined = ncclSuccess;
};

ncclResult_t all_reduce(ncclComm_t comm, const Gpu& gpu, ncclDataType_t type = ncclFloat, ncclRedOp_t op = ncclSum) {
  return ncclAllReduce(gpu.memory, gpu.memory, 4, type, op, comm, gpu.stream);
}

/// Looks a bounded number of times: what runs is over after one.
bool is_over(const Gpu& gpu) {
  for (int look = 0; look < 100; ++look) {
    if (cudaStreamQuery(gpu.stream) == cudaSuccess) return true;
  }
  return false;
}

/// How many things the work has done that no result tells.
int refusals_of(const std::function<void()>& work) {
  const int before = fake_gpu::refusals();
  work();
  return fake_gpu::refusals() - before;
}

}  // namespace

int main(int argc, char** argv) { return run_catch(argc, argv); }

TEST_CASE("a kernel runs on a stream of its device, on memory of its device", "[fakes][cuda]") {
  const Gpu first(0), second(1);
  const busbar::Pattern pattern = busbar::make_pattern(busbar::DType::float32, busbar::Op::sum, 1, 0);
  const auto fill = [&](const Gpu& memory, std::size_t count, const Gpu& stream) {
    return static_cast<cudaError_t>(busbar::fill_on_device(pattern, 0, 0, count, memory.memory, stream.stream));
  };
  cudaSetDevice(1);
  CHECK(fill(second, 2 * kBytes / 4, second) == cudaSuccess);
  CHECK(fill(second, 2 * kBytes / 4 + 1, second) == cudaErrorIllegalAddress);
  CHECK(fill(first, 1, second) == cudaErrorIllegalAddress);
  CHECK(fill(second, 1, first) == cudaErrorInvalidResourceHandle);
  std::vector<std::byte> host(kBytes);
  CHECK(cudaMemsetAsync(host.data(), 0, kBytes, second.stream) == cudaErrorIllegalAddress);
  // Copies take any stream, and no memory of others.
  CHECK(cudaMemcpyAsync(host.data(), second.memory, kBytes, cudaMemcpyDeviceToHost, first.stream) == cudaSuccess);
  CHECK(cudaMemcpyAsync(host.data(), second.memory, 3 * kBytes, cudaMemcpyDeviceToHost, first.stream) ==
        cudaErrorInvalidValue);
  CHECK(is_over(first));
  CHECK(is_over(second));
}

TEST_CASE("an event is recorded on its device, and times are asked of events that are over", "[fakes][cuda]") {
  const Gpu first(0), second(1);
  cudaEvent_t here = nullptr, there = nullptr;
  cudaSetDevice(0);
  REQUIRE(cudaEventCreate(&here) == cudaSuccess);
  cudaSetDevice(1);
  REQUIRE(cudaEventCreate(&there) == cudaSuccess);
  float ms = 0;
  CHECK(cudaEventRecord(here, second.stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventElapsedTime(&ms, here, here) == cudaErrorInvalidResourceHandle);  // never recorded
  REQUIRE(cudaEventRecord(here, first.stream) == cudaSuccess);
  REQUIRE(cudaEventRecord(there, second.stream) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&ms, here, here) == cudaErrorNotReady);
  cudaEvent_t late = nullptr;
  CHECK(cudaEventCreate(&late) != cudaSuccess);  // inside somebody's clock
  REQUIRE(is_over(first));
  CHECK(cudaEventElapsedTime(&ms, here, here) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&ms, here, there) == cudaErrorInvalidResourceHandle);
  cudaEventDestroy(here);
  cudaEventDestroy(there);
}

TEST_CASE("memory is a device's own, is given back once, and ends", "[fakes][cuda]") {
  cudaSetDevice(2);
  std::size_t free_bytes = 0, total = 0, left = 0;
  cudaMemGetInfo(&free_bytes, &total);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, kBytes) == cudaSuccess);
  cudaMemGetInfo(&left, &total);
  CHECK(left == free_bytes - kBytes);
  cudaSetDevice(3);
  cudaMemGetInfo(&left, &total);
  CHECK(left == total);
  CHECK(cudaFreeHost(memory) == cudaErrorInvalidValue);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  cudaSetDevice(2);
  cudaMemGetInfo(&left, &total);
  CHECK(left == free_bytes);
  CHECK(cudaMalloc(&memory, total + 1) == cudaErrorMemoryAllocation);
  CHECK(fake_gpu::left_behind().empty());
  const Gpu gpu(2);
  CHECK(fake_gpu::left_behind() == "1 streams, 1 allocations");
}

TEST_CASE("a capture begins once, ends in its thread, and holds nothing that waits", "[fakes][cuda]") {
  const Gpu gpu(0);
  cudaGraph_t graph = nullptr;
  const auto begin = [&] { return cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal); };
  const auto end = [&] { return cudaStreamEndCapture(gpu.stream, &graph); };
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal) == cudaErrorStreamCaptureUnsupported);
  CHECK(end() == cudaErrorIllegalState);
  REQUIRE(begin() == cudaSuccess);
  CHECK(begin() == cudaErrorIllegalState);
  CHECK(cudaStreamQuery(gpu.stream) == cudaErrorStreamCaptureUnsupported);
  cudaError_t elsewhere = cudaSuccess;
  void* memory = nullptr;
  std::thread([&] {
    elsewhere = end();
    // Another thread may allocate: the captures are thread-local.
    cudaSetDevice(0);
    if (cudaMalloc(&memory, kBytes) == cudaSuccess) cudaFree(memory);
  }).join();
  CHECK(elsewhere == cudaErrorStreamCaptureWrongThread);
  REQUIRE(end() == cudaSuccess);
  cudaGraphDestroy(graph);
  REQUIRE(begin() == cudaSuccess);
  CHECK(cudaMalloc(&memory, kBytes) == cudaErrorStreamCaptureUnsupported);
  CHECK(end() == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaErrorInvalidValue);
}

TEST_CASE("NCCL takes each GPU once", "[fakes][nccl]") {
  CHECK(Job({0, 1}).joined == ncclSuccess);
  CHECK(Job({1, 1}).joined == ncclInvalidUsage);
  CHECK_THAT(ncclGetLastError(nullptr), Contains("Duplicate GPU detected"));
}

TEST_CASE("a thread sets a device before it enters NCCL", "[fakes][nccl]") {
  const Gpu gpu(1);
  Job job({1});
  ncclResult_t without = ncclSuccess, with = ncclInternalError;
  std::thread([&] { without = all_reduce(job.comms[0], gpu); }).join();
  std::thread([&] {
    cudaSetDevice(1);
    with = all_reduce(job.comms[0], gpu);
  }).join();
  CHECK(without == ncclInvalidUsage);
  CHECK(with == ncclSuccess);
  CHECK(is_over(gpu));
  // To end a communicator is a group of NCCL's own.
  for (const auto end : {ncclCommDestroy, ncclCommAbort}) {
    std::thread([&] { without = end(job.comms[0]); }).join();
    CHECK(without == ncclInvalidUsage);
  }
}

TEST_CASE("several GPUs of a thread hang without a group", "[fakes][nccl]") {
  const Gpu first(0), second(1);
  Job job({0, 1});
  SECTION("collectives") {
    {
      const Impatience limit;
      CHECK(all_reduce(job.comms[0], first) == ncclSystemError);
    }
    ncclGroupStart();
    CHECK(ncclBroadcast(first.memory, first.memory, 4, ncclFloat, 0, job.comms[0], first.stream) == ncclSuccess);
    CHECK(ncclBroadcast(second.memory, second.memory, 4, ncclFloat, 0, job.comms[1], second.stream) == ncclSuccess);
    CHECK(ncclGroupEnd() == ncclSuccess);
    CHECK(is_over(first));
    CHECK(is_over(second));
  }
  SECTION("transfers") {
    const Impatience limit;
    CHECK(ncclSend(first.memory, 4, ncclFloat, 1, job.comms[0], first.stream) == ncclSystemError);
  }
  SECTION("windows") {
    const Impatience limit;
    ncclWindow_t window = nullptr;
    CHECK(ncclCommWindowRegister(job.comms[0], first.memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC) ==
          ncclSystemError);
    CHECK(ncclCommWindowDeregister(job.comms[0], window) == ncclSuccess);
  }
}

TEST_CASE("splitting, shrinking and growing wait for all ranks, and number them anew", "[fakes][nccl]") {
  const Gpu first(0), second(1), third(2);
  Job job({0, 1, 2});
  std::vector<ncclComm_t> made(3);
  const auto destroy = [&] {
    for (ncclComm_t& comm : made) {
      if (comm != nullptr) CHECK(ncclCommDestroy(std::exchange(comm, nullptr)) == ncclSuccess);
    }
  };
  SECTION("a rank alone waits for the others") {
    const Impatience limit;
    CHECK(ncclCommSplit(job.comms[0], 0, 0, &made[0], nullptr) == ncclSystemError);
    int last = 2;
    CHECK(ncclCommShrink(job.comms[0], &last, 1, &made[0], nullptr, NCCL_SHRINK_DEFAULT) == ncclSystemError);
  }
  SECTION("a split by color, ordered by key") {
    ncclGroupStart();
    for (int rank : {0, 1, 2})
      CHECK(ncclCommSplit(job.comms[rank], rank % 2, -rank, &made[rank], nullptr) == ncclSuccess);
    REQUIRE(ncclGroupEnd() == ncclSuccess);
    first.floats()[0] = second.floats()[0] = third.floats()[0] = 1;
    // Rank 0 and 2 make a communicator, in which the latter is the first.
    ncclGroupStart();
    first.floats()[0] = 5;
    ncclBroadcast(first.memory, first.memory, 1, ncclFloat, 0, made[0], first.stream);
    ncclBroadcast(third.memory, third.memory, 1, ncclFloat, 0, made[2], third.stream);
    CHECK(ncclGroupEnd() == ncclSuccess);
    CHECK(is_over(first));
    CHECK(first.floats()[0] == 1);
    destroy();
  }
  SECTION("who is excluded does not call") {
    int last = 2;
    CHECK(ncclCommShrink(job.comms[2], &last, 1, &made[2], nullptr, NCCL_SHRINK_DEFAULT) == ncclInvalidArgument);
  }
  SECTION("what was shrunk grows again") {
    int last = 2;
    std::vector<ncclComm_t> shrunk(2);
    ncclGroupStart();
    for (int rank : {0, 1}) ncclCommShrink(job.comms[rank], &last, 1, &shrunk[rank], nullptr, NCCL_SHRINK_DEFAULT);
    REQUIRE(ncclGroupEnd() == ncclSuccess);
    ncclUniqueId id;
    CHECK(ncclCommGrow(shrunk[0], 3, nullptr, -1, &made[0], nullptr) == ncclInvalidUsage);  // without an id
    REQUIRE(ncclCommGetUniqueId(shrunk[0], &id) == ncclSuccess);
    CHECK(ncclCommGetUniqueId(shrunk[0], &id) == ncclInvalidUsage);                       // one at a time
    CHECK(ncclCommGrow(shrunk[0], 3, &id, 0, &made[0], nullptr) == ncclInvalidArgument);  // is in: no rank
    ncclGroupStart();
    CHECK(ncclCommGrow(shrunk[0], 3, &id, -1, &made[0], nullptr) == ncclSuccess);
    cudaSetDevice(1);
    CHECK(ncclCommGrow(shrunk[1], 3, nullptr, -1, &made[1], nullptr) == ncclSuccess);
    cudaSetDevice(2);
    CHECK(ncclCommGrow(nullptr, 3, &id, 2, &made[2], nullptr) == ncclSuccess);
    CHECK(ncclGroupEnd() == ncclSuccess);
    ncclGroupStart();
    all_reduce(made[0], first);
    all_reduce(made[1], second);
    all_reduce(made[2], third);
    CHECK(ncclGroupEnd() == ncclSuccess);
    CHECK(is_over(third));
    destroy();
    for (ncclComm_t comm : shrunk) CHECK(ncclCommDestroy(comm) == ncclSuccess);
  }
}

TEST_CASE("a communicator's stream and buffers are its device's", "[fakes][nccl]") {
  const Gpu mine(1), other(0);
  Job job({1});
  ncclComm_t comm = job.comms[0];
  CHECK(ncclAllReduce(mine.memory, mine.memory, 4, ncclFloat, ncclSum, comm, other.stream) == ncclUnhandledCudaError);
  CHECK(ncclAllReduce(other.memory, mine.memory, 4, ncclFloat, ncclSum, comm, mine.stream) == ncclInvalidArgument);
  CHECK(ncclAllReduce(mine.memory, mine.memory, kBytes, ncclFloat, ncclSum, comm, mine.stream) == ncclInvalidArgument);
  CHECK(ncclBroadcast(mine.memory, mine.memory, 4, ncclFloat, 1, comm, mine.stream) == ncclInvalidArgument);  // root
  CHECK(all_reduce(comm, mine) == ncclSuccess);
  CHECK(is_over(mine));
}

TEST_CASE("a user's operation is one type's and one communicator's, and is given back", "[fakes][nccl]") {
  const Gpu gpu(0), second(1);
  Job job({0});
  Job another({1});
  float factor = 3;
  ncclRedOp_t op{};
  REQUIRE(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, job.comms[0]) == ncclSuccess);
  gpu.floats()[0] = 2;
  CHECK(all_reduce(job.comms[0], gpu, ncclFloat, op) == ncclSuccess);
  REQUIRE(is_over(gpu));
  CHECK(gpu.floats()[0] == 6);
  CHECK(all_reduce(job.comms[0], gpu, ncclDouble, op) == ncclInvalidArgument);
  CHECK(all_reduce(another.comms[0], second, ncclFloat, op) == ncclInvalidArgument);
  CHECK(refusals_of([&] {
          Job leaves({2});
          ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, leaves.comms[0]);
        }) == 1);
  CHECK(ncclRedOpDestroy(op, job.comms[0]) == ncclInvalidArgument);
  op = static_cast<ncclRedOp_t>(ncclNumOps);
  REQUIRE(ncclRedOpDestroy(op, job.comms[0]) == ncclSuccess);
  CHECK(all_reduce(job.comms[0], gpu, ncclFloat, op) == ncclInvalidArgument);
}

TEST_CASE("fp8 is reduced from sm_90 on, and scaled on more than one rank", "[fakes][nccl]") {
  const Gpu first(0);
  Job job({0});
  CHECK(all_reduce(job.comms[0], first, ncclFloat8e4m3, ncclSum) == ncclSuccess);
  CHECK(all_reduce(job.comms[0], first, ncclFloat8e4m3, ncclAvg) == ncclInvalidArgument);
  CHECK(all_reduce(job.comms[0], first, ncclFloat16, ncclAvg) == ncclSuccess);
  setenv("FAKE_CAPABILITY", "80", 1);
  CHECK(all_reduce(job.comms[0], first, ncclFloat8e5m2, ncclSum) == ncclInvalidArgument);
  CHECK(all_reduce(job.comms[0], first, ncclFloat16, ncclSum) == ncclSuccess);
  unsetenv("FAKE_CAPABILITY");
  CHECK(is_over(first));
}

TEST_CASE("narrow types are reduced in their own arithmetic", "[fakes][nccl]") {
  const Gpu first(0), second(1);
  Job job({0, 1});
  const auto sum_of = [&](ncclDataType_t type, std::uint32_t a, std::uint32_t b, std::size_t nbytes) {
    std::memcpy(first.memory, &a, nbytes);
    std::memcpy(second.memory, &b, nbytes);
    ncclGroupStart();
    ncclAllReduce(first.memory, first.memory, 1, type, ncclSum, job.comms[0], first.stream);
    ncclAllReduce(second.memory, second.memory, 1, type, ncclSum, job.comms[1], second.stream);
    CHECK(ncclGroupEnd() == ncclSuccess);
    CHECK(is_over(first));
    CHECK(is_over(second));
    std::uint32_t got = 0;
    std::memcpy(&got, second.memory, nbytes);
    return got;
  };
  CHECK(sum_of(ncclUint8, 200, 100, 1) == 44);               // modulo 256
  CHECK(sum_of(ncclFloat16, 0x3C00, 0x4000, 2) == 0x4200);   // 1 + 2 = 3
  CHECK(sum_of(ncclBfloat16, 0x3F80, 0x4000, 2) == 0x4040);  // 1 + 2 = 3
  CHECK(sum_of(ncclFloat8e4m3, 0x38, 0x40, 1) == 0x44);      // 1 + 2 = 3
  CHECK(sum_of(ncclFloat8e5m2, 0x3C, 0x40, 1) == 0x42);      // 1 + 2 = 3
}

TEST_CASE("a window is aligned memory of ncclMemAlloc, taken back before it is freed", "[fakes][nccl]") {
  const Gpu gpu(0), another(1);
  Job job({0});
  ncclComm_t comm = job.comms[0];
  ncclWindow_t window = nullptr;
  const auto make = [&](void* memory, std::size_t nbytes) {
    return ncclCommWindowRegister(comm, memory, nbytes, &window, NCCL_WIN_COLL_SYMMETRIC);
  };
  CHECK(make(gpu.memory, 0) == ncclInvalidArgument);  // before 2.29 it made none
  CHECK(make(static_cast<std::byte*>(gpu.memory) + 512, kBytes) == ncclInvalidArgument);
  CHECK(make(gpu.memory, 3 * kBytes) == ncclInvalidArgument);
  CHECK(make(another.memory, kBytes) == ncclInvalidArgument);
  void* plain = nullptr;
  cudaSetDevice(0);
  REQUIRE(cudaMalloc(&plain, kBytes) == cudaSuccess);
  CHECK(make(plain, kBytes) == ncclUnhandledCudaError);
  cudaFree(plain);
  REQUIRE(make(static_cast<std::byte*>(gpu.memory) + NCCL_WIN_REQUIRED_ALIGNMENT, kBytes) == ncclSuccess);
  CHECK(refusals_of([&] { CHECK(ncclCommWindowDeregister(comm, window) == ncclSuccess); }) == 0);
  CHECK(ncclCommWindowDeregister(comm, window) == ncclInvalidArgument);
  void* freed = nullptr;
  REQUIRE(ncclMemAlloc(&freed, kBytes) == ncclSuccess);
  REQUIRE(make(freed, kBytes) == ncclSuccess);
  CHECK(refusals_of([&] { ncclMemFree(freed); }) == 1);
  CHECK(ncclCommWindowDeregister(comm, window) == ncclSuccess);
}

TEST_CASE("GPUs that do not reach each other have one host's team, but neither windows nor device communicators",
          "[fakes][nccl]") {
  const Gpu first(0), second(1);
  Job job({0, 1});
  ncclDevCommRequirements needs{};
  needs.lsaBarrierCount = 1;
  ncclDevComm made{};
  setenv("FAKE_NCCL_ASYMMETRIC", "1", 1);
  CHECK(ncclTeamLsa(job.comms[0]).nRanks == 2);
  CHECK(ncclDevCommCreate(job.comms[0], &needs, &made) == ncclInvalidUsage);
  // As from 2.29 on, as this stand-in is.
  ncclWindow_t window = reinterpret_cast<ncclWindow_t>(first.memory);
  CHECK(ncclCommWindowRegister(job.comms[0], first.memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess);
  CHECK(window == nullptr);
  unsetenv("FAKE_NCCL_ASYMMETRIC");
}

TEST_CASE("a GPU in exclusive mode has one process at a time", "[fakes][cuda]") {
  const busbar::TempDir folder;
  setenv("FAKE_EXCLUSIVE", folder.path().c_str(), 1);
  CHECK(cudaSetDevice(5) == cudaSuccess);
  CHECK(cudaSetDevice(5) == cudaSuccess);
  // Another open file is as good as another process.
  const int other = open(folder.file("6").c_str(), O_CREAT | O_RDWR, 0600);
  REQUIRE(flock(other, LOCK_EX | LOCK_NB) == 0);
  CHECK(cudaSetDevice(6) == cudaErrorDevicesUnavailable);
  close(other);
  CHECK(cudaSetDevice(6) == cudaSuccess);
  unsetenv("FAKE_EXCLUSIVE");
}

TEST_CASE("no graph outlives its communicator, and nothing uses one that is gone", "[fakes][nccl]") {
  const Gpu gpu(0);
  ncclComm_t gone = nullptr;
  cudaGraph_t graph = nullptr;
  CHECK(refusals_of([&] {
          Job job({0});
          gone = job.comms[0];
          cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal);
          CHECK(all_reduce(job.comms[0], gpu) == ncclSuccess);
          CHECK(cudaStreamEndCapture(gpu.stream, &graph) == cudaSuccess);
        }) == 1);
  cudaGraphDestroy(graph);
  CHECK(all_reduce(gone, gpu) == ncclInvalidArgument);
  CHECK(ncclCommDestroy(gone) == ncclInvalidArgument);
}

TEST_CASE("a communicator that breaks is an error of its own, a remote one of its peers, until they are aborted",
          "[fakes][nccl]") {
  const Gpu first(0), second(1);
  Job job({0, 1});
  const auto once = [&] {
    ncclGroupStart();
    all_reduce(job.comms[0], first);
    all_reduce(job.comms[1], second);
    return ncclGroupEnd();
  };
  const auto state_of = [&](int rank) {
    ncclResult_t state = ncclSuccess;
    CHECK(ncclCommGetAsyncError(job.comms[rank], &state) == ncclSuccess);
    return state;
  };
  const bool is_silent = GENERATE(false, true);
  setenv("FAKE_NCCL_BREAKS", is_silent ? "1:1:silent" : "1:1", 1);
  CHECK(once() == ncclSuccess);
  CHECK(is_over(first));
  CHECK(is_over(second));
  CHECK(state_of(0) == ncclSuccess);
  CHECK(once() == ncclSuccess);
  CHECK_FALSE(is_over(first));
  CHECK_FALSE(is_over(second));
  CHECK(state_of(1) == ncclSystemError);
  CHECK(state_of(0) == (is_silent ? ncclSuccess : ncclRemoteError));
  unsetenv("FAKE_NCCL_BREAKS");
  for (ncclComm_t comm : job.comms) CHECK(ncclCommAbort(comm) == ncclSuccess);
  CHECK(is_over(first));
  CHECK(is_over(second));
}
