// Would catch: a stand-in that forgives what a GPU does not, so that a missing barrier, a barrier that only part of a
// block reaches, an unaligned vector or an impossible grid would pass here and fail there.

#include "cuda_runtime.h"

#include <catch2/catch.hpp>

#include <vector>

namespace {

/// Each thread hands its number to the next one, with a barrier in between or without.
cudaError_t hand_on(bool with_barrier, std::vector<unsigned>& got) {
  static unsigned shared[256];
  std::fill(std::begin(shared), std::end(shared), ~0u);
  return simt::launch(1, 256, [&] {
    shared[threadIdx.x] = threadIdx.x;
    if (with_barrier) __syncthreads();
    got[threadIdx.x] = shared[(threadIdx.x + 1) % 256];
  });
}

}  // namespace

TEST_CASE("a missing barrier shows in every order of the threads", "[simt]") {
  std::vector<unsigned> want(256), got(256);
  for (unsigned i = 0; i < 256; ++i) want[i] = (i + 1) % 256;
  for (const simt::Order order : {simt::Order::rising, simt::Order::falling, simt::Order::shuffled}) {
    simt::machine().order = order;
    CHECK(hand_on(true, got) == cudaSuccess);
    CHECK(got == want);
    CHECK(hand_on(false, got) == cudaSuccess);
    CHECK(got != want);
  }
  simt::machine() = {};
}

TEST_CASE("a barrier that part of a block never reaches ends the launch, and the next one is fine", "[simt]") {
  CHECK(simt::launch(1, 64, [] {
          if (threadIdx.x != 40) __syncthreads();
        }) == cudaErrorLaunchFailure);
  CHECK(simt::launch(1, 64, [] {
          if (threadIdx.x % 2 != 0) __shfl_down_sync(~0u, 1, 1);
        }) == cudaErrorLaunchFailure);
  CHECK(simt::launch(1, 64, [] { __syncthreads(); }) == cudaSuccess);
}

TEST_CASE("vectors must be aligned", "[simt]") {
  alignas(16) static unsigned char memory[64] = {};
  const auto load = [](int at) {
    return simt::launch(1, 1, [=] { __ldcs(reinterpret_cast<const uint4*>(memory + at)); });
  };
  CHECK(load(16) == cudaSuccess);
  CHECK(load(4) == cudaErrorLaunchFailure);
}

TEST_CASE("grids and blocks are those that a GPU takes", "[simt]") {
  const auto nothing = [] {};
  simt::machine().chosen = [](dim3) { return std::vector<uint3>{}; };
  CHECK(simt::launch(dim3(1, 65535), 1024, nothing) == cudaSuccess);
  CHECK(simt::launch(dim3(1, 65536), 32, nothing) == cudaErrorInvalidConfiguration);
  CHECK(simt::launch(dim3(0), 32, nothing) == cudaErrorInvalidConfiguration);
  CHECK(simt::launch(dim3(1), 1025, nothing) == cudaErrorInvalidConfiguration);
  simt::machine() = {};
}

TEST_CASE("warps exchange among themselves, and a block agrees as one", "[simt]") {
  std::vector<unsigned> sums(96);
  int any[2] = {};
  CHECK(simt::launch(1, 96, [&] {
          unsigned sum = threadIdx.x;
          for (unsigned step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
          sums[threadIdx.x] = sum;
          const int one = __syncthreads_or(threadIdx.x == 95), none = __syncthreads_or(0);
          if (threadIdx.x == 0) any[0] = one, any[1] = none;
        }) == cudaSuccess);
  CHECK(sums[0] == 31 * 32 / 2);
  CHECK(sums[32] == 32 * 32 + 31 * 32 / 2);
  CHECK(sums[64] == 64 * 32 + 31 * 32 / 2);
  CHECK(any[0] == 1);
  CHECK(any[1] == 0);
}

TEST_CASE("every block runs once, or every chosen one, with its own index", "[simt]") {
  std::vector<int> runs(12);
  const auto count = [&] {
    if (threadIdx.x == 1) ++runs[blockIdx.y * gridDim.x + blockIdx.x];
  };
  CHECK(simt::launch(dim3(4, 3), 2, count) == cudaSuccess);
  CHECK(runs == std::vector<int>(12, 1));
  simt::machine().chosen = [](dim3 grid) { return std::vector<uint3>{{grid.x - 1, 0, 0}, {1, grid.y - 1, 0}}; };
  CHECK(simt::launch(dim3(4, 3), 2, count) == cudaSuccess);
  simt::machine() = {};
  CHECK(runs == std::vector<int>{1, 1, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1});
}
