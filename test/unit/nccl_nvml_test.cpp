// The bug these catch: a crash or a made-up answer where the driver is missing, broken, or another library takes its
// name.

#include "common/machine/gpus.h"

#include <catch2/catch.hpp>

using busbar::ask_nvml;
using busbar::NvmlFacts;
using Catch::Contains;

TEST_CASE("A missing NVML is an answer that names the library", "[nvml]") {
  const NvmlFacts facts = ask_nvml("libno-such-nvml.so.1");
  CHECK_THAT(facts.problem, Contains("libno-such-nvml.so.1") && Contains("driver"));
  CHECK(facts.gpus == 0);
  CHECK(facts.driver_version.empty());
}

TEST_CASE("A library that is not NVML is refused", "[nvml]") {
  CHECK_THAT(ask_nvml("libc.so.6").problem, Contains("lacks"));
}

TEST_CASE("This machine's NVML either works or says why not", "[nvml]") {
  const NvmlFacts facts = ask_nvml();
  CHECK(facts.problem.empty() == !facts.driver_version.empty());
}
