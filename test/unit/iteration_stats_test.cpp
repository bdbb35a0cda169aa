// The bug these would catch: percentiles off by one, so that -I's columns differ from nccl-tests' on equal times.

#include "common/output/format.h"

#include <catch2/catch.hpp>

using namespace busbar;

TEST_CASE("Order statistics follow nccl-tests' nearest ranks", "[iteration_stats][unit]") {
  IterationTimes times;
  for (int i = 100; i >= 1; --i) times.times_s.push_back(i);
  const IterationStats s = iteration_stats(times);
  CHECK(s.min_s == 1);
  CHECK(s.max_s == 100);
  CHECK(s.avg_s == 50.5);
  CHECK(s.p50_s == 51);
  CHECK(s.p95_s == 95);
  CHECK(s.p99_s == 99);
  CHECK(s.stdev_s == Approx(28.866070));  // sqrt((100^2 - 1) / 12)
  CHECK(s.cv_pct == Approx(57.160535));
}

TEST_CASE("Skipped iterations do not count, and none left gives zeros", "[iteration_stats][unit]") {
  IterationTimes times{.skipped = 2, .times_s = {50, 40, 3}, .per_process_max_times_s = {}};
  CHECK(iteration_stats(times).max_s == 3);
  CHECK(iteration_stats(times).p99_s == 3);
  times.skipped = 3;
  CHECK(iteration_stats(times).max_s == 0);
  CHECK(iteration_stats({}).avg_s == 0);
}
