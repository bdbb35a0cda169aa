// The bug these catch: an old library named wrongly, or accepted because its number has one digit less.

#include "common/backends/nccl/nccl_fields.h"

#include <catch2/catch.hpp>

using busbar::kMinNcclVersion;
using busbar::nccl_version_text;

TEST_CASE("NCCL's version number reads as people write it", "[nccl]") {
  CHECK(nccl_version_text(22809) == "2.28.9");
  CHECK(nccl_version_text(23007) == "2.30.7");
  CHECK(nccl_version_text(21005) == "2.10.5");
  CHECK(nccl_version_text(2804) == "2.8.4");
}

TEST_CASE("Every release before 2.19 is too old", "[nccl]") {
  CHECK(21806 < kMinNcclVersion);
  CHECK(2804 < kMinNcclVersion);
  CHECK(21901 >= kMinNcclVersion);
}
