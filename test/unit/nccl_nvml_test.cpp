// Would catch: a crash or a made-up answer where the driver is missing or broken, or another library has its name.

#include "common/machine/gpus.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Catch::Contains;

TEST_CASE("A missing NVML is an answer that names the library", "[nvml]") {
  CHECK_THAT(nvml_problem("libno-such-nvml.so.1"), Contains("libno-such-nvml.so.1") && Contains("driver"));
}

TEST_CASE("A library that is not NVML is refused", "[nvml]") {
  CHECK_THAT(nvml_problem("libc.so.6"), Contains("lacks"));
}

TEST_CASE("This machine's NVML either works or says why not", "[nvml]") {
  CHECK(nvml_problem().empty() == !read_gpus().driver.empty());
}
