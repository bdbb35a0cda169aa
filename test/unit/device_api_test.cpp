// Would catch: a device API kernel (-D) that is taken for another collective's, that is started for what it cannot add,
// or by a header that tells it something else than the library, or than the host's code was compiled with.

#include "common/backends/nccl/device_kernels.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;

TEST_CASE("device kernels have nccl-tests' numbers", "[backends][device_api]") {
  const auto names = [](CollectiveId id) {
    std::vector<std::string> all;
    for (int d = 0; d <= 5; ++d) all.emplace_back(device_kernel_name(id, d));
    return all;
  };
  CHECK(names(CollectiveId::all_reduce) ==
        std::vector<std::string>{"", "LSA", "LSA_VECTOR", "MULTIMEM", "MULTIMEM_VECTOR", ""});
  CHECK(names(CollectiveId::alltoall) == std::vector<std::string>{"", "LSA", "LSA_VECTOR", "GIN", "GIN_LSA", ""});
  CHECK(names(CollectiveId::all_gather) == std::vector<std::string>(6));
  CHECK(needs_multimem(CollectiveId::all_reduce, 3));
  CHECK_FALSE(needs_multimem(CollectiveId::all_reduce, 2));
  CHECK_FALSE(needs_multimem(CollectiveId::alltoall, 3));
  CHECK(needs_network(CollectiveId::alltoall, 4));
  CHECK_FALSE(needs_network(CollectiveId::all_reduce, 4));
}

TEST_CASE("device kernels add what nccl-tests' add, and bfloat16", "[backends][device_api]") {
  const auto added_by = [](int implementation) {
    std::vector<DType> dtypes;
    for (const DType dtype : kAllDTypes) {
      if (why_no_device_kernel(CollectiveId::all_reduce, implementation, dtype, Op::sum).empty())
        dtypes.push_back(dtype);
    }
    return dtypes;
  };
  const std::vector<DType> all{DType::int8,   DType::uint8, DType::int32,   DType::uint32,  DType::int64,
                               DType::uint64, DType::half,  DType::float32, DType::float64, DType::bfloat16};
  CHECK(added_by(1) == all);
  CHECK(added_by(2) == all);
  CHECK(added_by(3) == std::vector<DType>(all.begin() + 2, all.end()));
  CHECK(added_by(4) == std::vector<DType>(all.begin() + 2, all.end()));
  CHECK_THAT(why_no_device_kernel(CollectiveId::all_reduce, 1, DType::float32, Op::max), Contains("have no max"));
  CHECK_THAT(why_no_device_kernel(CollectiveId::broadcast, 1, DType::float32, {}), Contains("all_reduce and alltoall"));
  for (const DType dtype : kAllDTypes) CHECK(why_no_device_kernel(CollectiveId::alltoall, 2, dtype, {}).empty());
}

// By hand from src/include/nccl_device and dev_runtime.cc of NCCL 2.28.3, 2.28.7, 2.28.9, 2.29.2 and 2.30.7.
TEST_CASE("header and library speak of the same communicator to device kernels", "[backends][device_api]") {
  CHECK(device_api_mismatch(22809, 22809).empty());
  CHECK(device_api_mismatch(22807, 22809).empty());
  CHECK(device_api_mismatch(22809, 22807).empty());
  CHECK(device_api_mismatch(22902, 23203).empty());
  CHECK_THAT(device_api_mismatch(22809, 22803), Contains("between NCCL 2.28.9 (header) and 2.28.3 (library)"));
  CHECK_THAT(device_api_mismatch(23007, 22907), Contains("2.29.7 (library) is older than 2.30.7 (header)"));
  CHECK_THAT(device_api_mismatch(22809, 22902), Contains("between NCCL 2.28.9 (header) and 2.29.2 (library)"));
  CHECK_THAT(device_api_mismatch(22902, 22809), Contains("build with the library's header"));
}

TEST_CASE("kernels and host code of one build have one NCCL header", "[backends][device_api]") {
  CHECK(device_header_mismatch({22809, 200}, {22809, 200}).empty());
  const std::string mixed = device_header_mismatch({22809, 200}, {23007, 240});
  CHECK_THAT(mixed, Contains("2.28.9 (a communicator of 200 bytes)"));
  CHECK_THAT(mixed, Contains("2.30.7 (240 bytes)"));
  // A version of one's own, or another compiler's layout.
  CHECK_FALSE(device_header_mismatch({22809, 208}, {22809, 200}).empty());
  CHECK_FALSE(device_header_mismatch({22807, 200}, {22809, 200}).empty());
}
