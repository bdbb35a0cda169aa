// Would catch: a canary whose work the compiler removed, or that is another work each time: it would tell of drift that
// is its own, or of none ever.

#include "common/measure/disturbance.h"

#include <catch2/catch.hpp>

using namespace busbar;

TEST_CASE("Both canaries do all of their work, every time", "[canary][measure]") {
  Canary canary;
  CHECK_FALSE(canary.copied());
  for (int i = 0; i < 3; ++i) {
    // By Python: x = 1, then 250000 times x = (x * 6364136223846793005 + 1442695040888963407) % 2**64.
    CHECK(canary.run().spun == 21495175818939665U);
    CHECK(canary.copied());
  }
}

TEST_CASE("The copy is larger than a second-level cache, and at most 8 MiB", "[canary][measure]") {
  const Canary canary;
}
