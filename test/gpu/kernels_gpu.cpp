// Would catch: a GPU kernel that makes or expects other bits than the host does, an element at the edge of a vector
// that is skipped, a planted error that is not counted or is found elsewhere.
//
// Without a usable GPU it says so and exits with 77, with --allow-skip with 0. --bench prints the kernels' GB/s beside
// a device copy's instead of testing, --gpus the GPUs that CUDA shows, as nvidia-smi does (gpu_check.sh).

#include "kernels/host.h"
#include "kernels/number.h"
#include "run_catch.h"

#include <catch2/catch.hpp>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

using namespace busbar;

namespace {

#define CUDA_OK(call) cuda_ok(call, #call)

void cuda_ok(int error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(static_cast<cudaError_t>(error)));
}

struct DeviceMemory {
  void* data = nullptr;
  explicit DeviceMemory(std::size_t nbytes) { CUDA_OK(cudaMalloc(&data, nbytes)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(data); }
};

std::vector<std::optional<Op>> all_patterns() {
  std::vector<std::optional<Op>> ops{std::nullopt};
  ops.insert(ops.end(), kAllOps.begin(), kAllOps.end());
  return ops;
}

void upload(const DeviceMemory& to, const std::vector<unsigned char>& from) {
  CUDA_OK(cudaMemcpy(to.data, from.data(), from.size(), cudaMemcpyHostToDevice));
}

std::vector<unsigned char> download(const DeviceMemory& from, std::size_t nbytes) {
  std::vector<unsigned char> bytes(nbytes);
  CUDA_OK(cudaMemcpy(bytes.data(), from.data, nbytes, cudaMemcpyDeviceToHost));
  return bytes;
}

CheckResult check_gpu(const Pattern& pattern, const std::vector<Block>& blocks, const void* recv) {
  const DeviceMemory device_blocks(blocks.size() * sizeof(Block)), result(sizeof(CheckResult));
  CUDA_OK(cudaMemcpy(device_blocks.data, blocks.data(), blocks.size() * sizeof(Block), cudaMemcpyHostToDevice));
  auto* const found = static_cast<CheckResult*>(result.data);
  CUDA_OK(reset_check_on_device(found, nullptr));
  CUDA_OK(check_on_device(pattern, static_cast<const Block*>(device_blocks.data), blocks.size(), recv, found, nullptr));
  CheckResult host;
  CUDA_OK(cudaMemcpy(&host, found, sizeof host, cudaMemcpyDeviceToHost));
  return host;
}

}  // namespace

TEST_CASE("every kernel can be loaded beforehand", "[kernels][gpu]") { CHECK(preload_device_kernels() == cudaSuccess); }

TEST_CASE("the GPU fills bit for bit as the host does, from any element to any address", "[kernels][gpu]") {
  constexpr std::size_t kCount = 3000;
  const DeviceMemory memory((kCount + 64) * 8);
  for (const DType dtype : kAllDTypes) {
    const std::size_t width = size_of(dtype);
    for (const std::optional<Op> op : all_patterns()) {
      for (const int nranks : {1, 3, 64}) {
        const Pattern pattern = make_pattern(dtype, op, nranks, 12);
        const int rank = nranks - 1;
        int wrong = 0;
        for (const std::size_t first :
             {std::size_t{0}, std::size_t{7}, std::size_t{48}, (std::size_t{1} << 36) - 100}) {
          for (const std::size_t offset : {0, 1, 5}) {
            const std::size_t at = (16 + offset) * width;
            std::vector<unsigned char> want((kCount + 64) * width, 0xEE);
            upload(memory, want);
            CUDA_OK(fill_on_device(pattern, rank, first, kCount, static_cast<char*>(memory.data) + at, nullptr));
            fill(pattern, rank, first, kCount, want.data() + at);
            wrong += download(memory, want.size()) != want;
          }
        }
        INFO(name(dtype) << ' ' << (op ? name(*op) : "moved") << " over " << nranks);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("the GPU accepts what the host made and counts what was broken", "[kernels][gpu]") {
  constexpr std::size_t kCount = 5000;
  const DeviceMemory memory((kCount + 8) * 8);
  for (const DType dtype : kAllDTypes) {
    const std::size_t width = size_of(dtype);
    for (const std::optional<Op> op : all_patterns()) {
      for (const int nranks : {1, 2, 50}) {
        const Pattern pattern = make_pattern(dtype, op, nranks, 13);
        for (const std::size_t offset : {0, 3}) {
          const Block block{2, kCount, op ? kReduction : 0, offset == 0 ? std::size_t{2} : std::size_t{31}};
          std::vector<unsigned char> recv((kCount + 8) * width, kPoisonByte);
          for (std::size_t i = 0; i < kCount; ++i) {
            const std::uint64_t bits = element_bits(pattern, block.source, block.from + i);
            std::memcpy(recv.data() + (offset + block.at + i) * width, &bits, width);
          }
          const auto* const data = static_cast<const char*>(memory.data) + offset * width;
          upload(memory, recv);
          INFO(name(dtype) << ' ' << (op ? name(*op) : "moved") << " over " << nranks << " offset " << offset);
          CHECK(check_gpu(pattern, {block}, data).wrong == 0);
          for (const std::size_t at : {2, 3, 777, 4096, 5001}) recv[(offset + at) * width + width - 1] ^= 0x40;
          upload(memory, recv);
          const CheckResult broken = check_gpu(pattern, {block}, data);
          CHECK(broken.wrong == 5);
          CHECK(broken.first == 2);
          CHECK(broken.last == 5001);
        }
      }
    }
  }
}

TEST_CASE("a tolerance applies on the GPU as on the host", "[kernels][gpu]") {
  const DeviceMemory memory(1000 * 8);
  for (const DType dtype :
       {DType::half, DType::float32, DType::float64, DType::bfloat16, DType::f8e4m3, DType::f8e5m2}) {
    const Pattern pattern = make_pattern(dtype, Op::avg, 7, 6);
    const std::size_t width = size_of(dtype);
    for (const double factor : {0.4, 1.2, 30.0}) {
      std::vector<unsigned char> recv(1000 * width);
      for (std::size_t i = 0; i < 1000; ++i) {
        const double want = decode(dtype, element_bits(pattern, kReduction, i));
        const double error = (i % 2 != 0 ? factor : -factor) * pattern.tolerance;
        const std::uint64_t bits = encode(dtype, i == 500 ? NAN : want + error);
        std::memcpy(recv.data() + i * width, &bits, width);
      }
      upload(memory, recv);
      const Block block{0, 1000, kReduction, 0};
      const CheckResult host = check(pattern, block, recv.data()), gpu = check_gpu(pattern, {block}, memory.data);
      INFO(name(dtype) << " factor " << factor);
      CHECK(host.wrong >= 1);
      CHECK(gpu.wrong == host.wrong);
      CHECK(gpu.first == host.first);
      CHECK(gpu.last == host.last);
    }
  }
}

TEST_CASE("more blocks than a grid has rows are all checked", "[kernels][gpu]") {
  constexpr int kBlocks = 70000;
  const Pattern pattern = make_pattern(DType::int32, std::nullopt, kBlocks, 3);
  std::vector<Block> blocks;
  std::vector<unsigned char> recv(kBlocks * 4);
  for (int rank = 0; rank < kBlocks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    blocks.push_back({at, 1, rank, 5});
    const std::uint64_t bits = element_bits(pattern, rank, 5);
    std::memcpy(recv.data() + at * 4, &bits, 4);
  }
  const DeviceMemory memory(recv.size());
  upload(memory, recv);
  CHECK(check_gpu(pattern, blocks, memory.data).wrong == 0);
  recv[69999 * 4] ^= 1;
  recv[66000 * 4] ^= 1;
  upload(memory, recv);
  const CheckResult result = check_gpu(pattern, blocks, memory.data);
  CHECK(result.wrong == 2);
  CHECK(result.first == 66000);
  CHECK(result.last == 69999);
}

TEST_CASE("neutral data on the GPU are the host's", "[kernels][gpu]") {
  for (const DType dtype : kAllDTypes) {
    for (const std::optional<Op> op : all_patterns()) {
      const Pattern pattern = make_pattern(dtype, op, 4, 1);
      std::vector<unsigned char> want(1003 * size_of(dtype), 0xEE);
      const DeviceMemory memory(want.size());
      upload(memory, want);
      const std::size_t at = 2 * size_of(dtype);
      CUDA_OK(fill_neutral_on_device(pattern, 1000, static_cast<char*>(memory.data) + at, nullptr));
      fill_neutral(pattern, 1000, want.data() + at);
      CHECK(download(memory, want.size()) == want);
    }
  }
}

namespace {

/// Seconds of one call, the best of ten after a warm-up.
template <class Work>
double best_time(Work work) {
  cudaEvent_t start, stop;
  CUDA_OK(cudaEventCreate(&start));
  CUDA_OK(cudaEventCreate(&stop));
  float best_ms = 1e30f;
  for (int i = 0; i < 11; ++i) {
    CUDA_OK(cudaEventRecord(start));
    work();
    CUDA_OK(cudaEventRecord(stop));
    CUDA_OK(cudaEventSynchronize(stop));
    float ms = 0;
    CUDA_OK(cudaEventElapsedTime(&ms, start, stop));
    if (i > 0) best_ms = std::min(best_ms, ms);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  return best_ms / 1e3;
}

void bench_pattern(DType dtype, std::optional<Op> op, void* buffer, std::size_t nbytes, double copy_rate) {
  const int nranks = op ? 8 : 1;
  const Pattern pattern = make_pattern(dtype, op, nranks, 7);
  const std::size_t count = nbytes / size_of(dtype);
  const Block block{0, count, op ? kReduction : 0, 0};
  const DeviceMemory blocks(sizeof block), result(sizeof(CheckResult));
  CUDA_OK(cudaMemcpy(blocks.data, &block, sizeof block, cudaMemcpyHostToDevice));
  auto* const found = static_cast<CheckResult*>(result.data);
  const double fill_s = best_time([&] { CUDA_OK(fill_on_device(pattern, 0, 0, count, buffer, nullptr)); });
  // The reduction's own data, so that nothing is wrong: what is wrong takes longer.
  CUDA_OK(fill_on_device(pattern, block.source, 0, count, buffer, nullptr));
  CUDA_OK(reset_check_on_device(found, nullptr));
  const double check_s = best_time(
      [&] { CUDA_OK(check_on_device(pattern, static_cast<const Block*>(blocks.data), 1, buffer, found, nullptr)); });
  CheckResult host;
  CUDA_OK(cudaMemcpy(&host, found, sizeof host, cudaMemcpyDeviceToHost));
  const double fill_rate = static_cast<double>(nbytes) / fill_s / 1e9,
               check_rate = static_cast<double>(nbytes) / check_s / 1e9;
  std::printf("%9s %7s %9.1f %6.2f %9.1f %6.2f %s\n", std::string(name(dtype)).c_str(),
              std::string(op ? name(*op) : "moved").c_str(), fill_rate, fill_rate / copy_rate, check_rate,
              check_rate / copy_rate, host.wrong == 0 ? "" : "WRONG");
}

void bench() {
  std::size_t free_bytes = 0, total_bytes = 0;
  CUDA_OK(cudaMemGetInfo(&free_bytes, &total_bytes));
  const std::size_t nbytes = std::min<std::size_t>(std::size_t{1} << 30, free_bytes / 4) / 4096 * 4096;
  const DeviceMemory buffer(nbytes), copy(nbytes);
  const double copy_s =
      best_time([&] { CUDA_OK(cudaMemcpyAsync(copy.data, buffer.data, nbytes, cudaMemcpyDeviceToDevice)); });
  const double set_s = best_time([&] { CUDA_OK(cudaMemsetAsync(copy.data, 1, nbytes)); });
  const double copy_rate = 2 * static_cast<double>(nbytes) / copy_s / 1e9;
  cudaDeviceProp device;
  CUDA_OK(cudaGetDeviceProperties(&device, 0));
  std::printf("# %s, %zu MiB; GB/s = 1e9 B/s, best of 10; a ratio is to the copy's traffic (read and written)\n",
              device.name, nbytes >> 20);
  std::printf("# device copy %.1f, memset %.1f\n", copy_rate, static_cast<double>(nbytes) / set_s / 1e9);
  std::printf("#%8s %7s %9s %6s %9s %6s\n", "type", "data", "fill", "ratio", "check", "ratio");
  for (const DType dtype : kAllDTypes) bench_pattern(dtype, Op::sum, buffer.data, nbytes, copy_rate);
  bench_pattern(DType::float32, std::nullopt, buffer.data, nbytes, copy_rate);
}

const char* compute_mode_name(int mode) {
  switch (mode) {
    case cudaComputeModeDefault:
      return "Default";
    case cudaComputeModeExclusive:
      return "Exclusive_Thread";
    case cudaComputeModeProhibited:
      return "Prohibited";
    case cudaComputeModeExclusiveProcess:
      return "Exclusive_Process";
    default:
      return "unknown";
  }
}

/// Number, name, newest CUDA of the driver, memory, bus id and compute mode of each GPU. Makes no context: who has the
/// GPU for himself keeps it.
int list_gpus() {
  int ndevices = 0, driver = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&ndevices); error != cudaSuccess || ndevices == 0) {
    std::printf("CUDA shows none (%s)\n", cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error));
    return 77;
  }
  CUDA_OK(cudaDriverGetVersion(&driver));
  for (int i = 0; i < ndevices; ++i) {
    cudaDeviceProp device;
    char bus_id[32] = {};
    int mode = 0;
    CUDA_OK(cudaGetDeviceProperties(&device, i));
    CUDA_OK(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, i));
    CUDA_OK(cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, i));
    std::printf("%d, %s, CUDA %d.%d, %zu MiB, %s, %s\n", i, device.name, driver / 1000, driver % 1000 / 10,
                device.totalGlobalMem >> 20, bus_id, compute_mode_name(mode));
  }
  return 0;
}

/// Why no kernel can run here; empty: one can.
std::string why_no_gpu() {
  int ndevices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&ndevices); error != cudaSuccess) return cudaGetErrorString(error);
  if (ndevices == 0) return "no device";
  const cudaError_t error = cudaFree(nullptr);
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

/// Removes the option from the arguments; whether it was there.
bool take(std::vector<char*>& args, const char* option) {
  const auto it =
      std::find_if(args.begin(), args.end(), [&](const char* arg) { return std::strcmp(arg, option) == 0; });
  if (it == args.end()) return false;
  args.erase(it);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<char*> args(argv, argv + argc);
  const bool allow_skip = take(args, "--allow-skip"), only_bench = take(args, "--bench");
  if (take(args, "--gpus")) return list_gpus();
  if (const std::string reason = why_no_gpu(); !reason.empty()) {
    std::printf("SKIPPED: no GPU (%s)\n", reason.c_str());
    return allow_skip ? 0 : 77;
  }
  if (only_bench) {
    bench();
    return 0;
  }
  return run_catch(static_cast<int>(args.size()), args.data());
}
