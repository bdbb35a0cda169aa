// Would catch: a baseline that fails healthy clusters whose launches differ (36 % of them by the intervals inside
// launches, with ten rows and a margin of 10 %), or that no longer finds a slow one.

#include "acceptance_rates.h"

#include <catch2/catch.hpp>

using namespace busbar;
using namespace busbar::rates;

namespace {

constexpr int kTrials = 400;

}  // namespace

TEST_CASE("A healthy cluster seldom fails against its baseline, however many launches there are", "[accept][rates]") {
  const AcceptPlan plan = ten_rows();
  for (const auto& [before, now] : {std::pair(1, 1), std::pair(4, 1), std::pair(8, 1), std::pair(4, 4)}) {
    CAPTURE(before, now);
    CHECK(verdicts(plan, {}, before, now, kTrials).fail <= 0.02);  // 1 % and twice its deviation
  }
}

TEST_CASE("A slow cluster is found by as many launches as its slowness takes", "[accept][rates]") {
  const AcceptPlan plan = ten_rows();
  CHECK(verdicts(plan, {.rate = 0.8}, 10, 10, kTrials).fail >= 0.93);  // 95.9 % of 20000, less twice the deviation
  CHECK(verdicts(plan, {.rate = 0.7}, 4, 4, kTrials).fail >= 0.95);
  CHECK(verdicts(plan, {.rate = 0.6}, 8, 1, kTrials).fail >= 0.95);
  const Verdicts few = verdicts(plan, {.rate = 0.8}, 1, 1, kTrials);
  CHECK(few.fail + few.inconclusive >= 0.97);
  CHECK(few.inconclusive >= 0.7);
}
