// The bug these catch: two ranks of a host on one GPU, or a rank on a GPU that is not there.

#include "common/backends/nccl/device_kernels.h"
#include "common/base/error.h"

#include <catch2/catch.hpp>

#include <vector>

using busbar::choose_devices;
using busbar::DeviceRequest;
using busbar::Error;
using busbar::ExitCode;
using busbar::gpu_memory_limit;
using Catch::Contains;
using Devices = std::vector<int>;

TEST_CASE("Local ranks take the GPUs of a host in turn", "[devices][nccl]") {
  CHECK(choose_devices({.local_rank = 0, .visible = 2}) == Devices{0});
  CHECK(choose_devices({.local_rank = 1, .visible = 2}) == Devices{1});
  CHECK(choose_devices({.local_rank = 1, .per_process = 4, .visible = 8}) == Devices{4, 5, 6, 7});
}

TEST_CASE("NCCL_TESTS_DEVICE is the first GPU of every process", "[devices][nccl]") {
  CHECK(choose_devices({.local_rank = 3, .per_process = 2, .visible = 8, .base_device = 5}) == Devices{5, 6});
}

TEST_CASE("A process that sees GPUs of its own starts at its first", "[devices][nccl]") {
  CHECK(choose_devices({.local_rank = 3, .visible = 1, .own_gpus = true}) == Devices{0});
}

TEST_CASE("Shared GPUs take consecutive local ranks", "[devices][nccl]") {
  for (int local_rank = 0; local_rank < 8; ++local_rank) {
    CHECK(choose_devices({.local_rank = local_rank, .visible = 2, .ranks_per_gpu = 4}) == Devices{local_rank / 4});
  }
}

TEST_CASE("A GPU that is not there is exit 5 and named", "[devices][nccl]") {
  try {
    choose_devices({.local_rank = 1, .per_process = 2, .visible = 3});
    FAIL("accepted GPU 3 of 3");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::not_possible);
    CHECK_THAT(e.what(), Contains("process 1") && Contains("GPUs 2 to 3") && Contains("only 3"));
  }
  CHECK_THROWS_AS(choose_devices({.visible = 0}), Error);
  CHECK_THROWS_AS(choose_devices({.visible = 1, .base_device = -1}), Error);
  CHECK_THROWS_AS(choose_devices({.local_rank = 2, .visible = 1, .ranks_per_gpu = 2}), Error);
}

TEST_CASE("The memory limit keeps a reserve and shares the rest between a GPU's ranks", "[memory][nccl]") {
  constexpr std::size_t kGiB = std::size_t{1} << 30;
  CHECK(gpu_memory_limit(78 * kGiB, 80 * kGiB, 1).bytes_per_rank == 74 * kGiB);
  CHECK(gpu_memory_limit(20 * kGiB, 24 * kGiB, 1).bytes_per_rank == 18 * kGiB);
  CHECK(gpu_memory_limit(78 * kGiB, 80 * kGiB, 2).bytes_per_rank == 37 * kGiB);
  CHECK_THAT(gpu_memory_limit(78 * kGiB, 80 * kGiB, 2).arithmetic,
             Contains("78 GiB free - 4 GiB reserve") && Contains("/ 2 ranks per GPU") && Contains("= 37 GiB per rank"));
}

TEST_CASE("A full GPU leaves nothing instead of a huge number", "[memory][nccl]") {
  CHECK(gpu_memory_limit(std::size_t{1} << 20, std::size_t{80} << 30, 1).bytes_per_rank == 0);
}
