// Would catch: a canary whose work the compiler removed, or that is another work each time: it would tell of drift that
// is its own, or of none ever.

#include "common/measure/canary.h"

#include <catch2/catch.hpp>

using namespace busbar;

TEST_CASE("Both canaries cost time, every time", "[canary][measure]") {
  Canary canary;
  for (int i = 0; i < 3; ++i) {
    const CanaryTimes times = canary.run();
    // 250000 dependent multiplications: no processor takes one in less than a clock of 25 GHz.
    CHECK(times.spin_s > 10e-6);
    CHECK(times.copy_s > 0);
  }
}

TEST_CASE("The copy is larger than a second-level cache, and at most 8 MiB", "[canary][measure]") {
  const Canary canary;
  CHECK(canary.copy_bytes() > 0);
  CHECK(canary.copy_bytes() <= (8U << 20));
}
