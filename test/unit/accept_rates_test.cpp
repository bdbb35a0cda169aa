// Would catch: a baseline that fails healthy clusters whose launches differ (36 % of them by the intervals inside
// launches, with ten rows and a margin of 10 %), or that no longer finds a slow one.

#include "acceptance_rates.h"
#include "common/base/embedded_file.h"

#include <catch2/catch.hpp>

using namespace busbar;
using namespace busbar::rates;

namespace {

constexpr int kTrials = 400;

}  // namespace

TEST_CASE("A healthy cluster seldom fails against its baseline, however many launches there are",
          "[accept][rates][slow]") {
  const AcceptPlan plan = ten_rows();
  for (const auto& [before, now] : {std::pair(1, 1), std::pair(4, 1), std::pair(8, 1), std::pair(4, 4)}) {
    CAPTURE(before, now);
    CHECK(verdicts(plan, {}, before, now, kTrials).fail <= 0.02);  // 1 % and twice its deviation
  }
}

TEST_CASE("A slow cluster is found by as many launches as its slowness takes", "[accept][rates][slow]") {
  const AcceptPlan plan = ten_rows();
  CHECK(verdicts(plan, {.rate = 0.8}, 10, 10, kTrials).fail >= 0.95);
  CHECK(verdicts(plan, {.rate = 0.7}, 4, 4, kTrials).fail >= 0.95);
  CHECK(verdicts(plan, {.rate = 0.6}, 8, 1, kTrials).fail >= 0.95);
  const Verdicts few = verdicts(plan, {.rate = 0.8}, 1, 1, kTrials);
  CHECK(few.fail + few.inconclusive >= 0.97);
  CHECK(few.inconclusive >= 0.7);
}

TEST_CASE("Shipped plans FAIL a host at 0.7 of the others in one launch, and no healthy one", "[accept][rates][slow]") {
  int plans = 0;
  for (const EmbeddedFile& file : embedded_plans()) {
    if (file.text.find("\nstages:") == std::string_view::npos) continue;
    const AcceptPlan plan = read_accept_plan(std::string(file.text), std::string(file.name));
    for (const int hosts : {3, 4, 16}) {
      constexpr int kFew = 150;
      CAPTURE(file.name, hosts);
      CHECK(verdicts(plan, {.hosts = hosts}, 0, 1, kFew).fail <= 0.02);
      CHECK(verdicts(plan, {.hosts = hosts, .slow_hosts = 1, .slow_rate = 0.7}, 0, 1, kFew).fail >= 0.95);
      CHECK(verdicts(plan, {.hosts = hosts, .slow_hosts = 1, .slow_rate = 0.8}, 0, 1, kFew).named >= 0.90);
    }
    ++plans;
  }
  CHECK(plans == 4);
}
