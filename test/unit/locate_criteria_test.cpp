// The bug this would catch: one criterion under two names, so that whoever follows "counters" from run to run does not
// see those that moved while busbar locate ran.

#include "driver/formats/result_formats.h"
#include "driver/locate/locate_run.h"
#include "report_fixture.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace busbar;

TEST_CASE("locate's criteria have the names that accept gives them", "[locate][unit]") {
  LocateRun run;
  run.located.unit = UnitKind::host;
  run.located.units = {"node0", "node1"};
  run.counters = {{.check = "ib.symbol_error", .subject = "node1 mlx5_3/1", .outcome = Outcome::fail, .value = "+812"}};
  SlowRank slow;
  slow.rank = 3;
  slow.host = "node1";
  run.ranks.slow = {slow};
  const AcceptResult result = result_of_run(sample_run(), run);
  const std::string metrics = prometheus_text(result, "locate", 0);
  CHECK(metrics.find("criterion=\"counters\"") != std::string::npos);
  CHECK(metrics.find("criterion=\"counter\"") == std::string::npos);
  CHECK(metrics.find("criterion=\"slow-rank\"") != std::string::npos);
  const auto counters = std::find_if(result.criteria.begin(), result.criteria.end(),
                                     [](const CriterionResult& c) { return c.criterion == Criterion::counters; });
  REQUIRE(counters != result.criteria.end());
  CHECK(counters->hosts == std::vector<std::string>{"node1"});
  CHECK(counters->outcome == Outcome::fail);
}

TEST_CASE("ranks that do not have a core each beside other programs are in doubt", "[locate]") {
  CHECK(crowded_cores(2, 0.1, 2).empty());  // the launcher, now and then
  CHECK(crowded_cores(2, 50, 64).empty());
  CHECK(
      crowded_cores(2, 1.3, 2).starts_with("other programs kept 1.3 of 2 cores busy, so the scheduler decides which"));
  CHECK_FALSE(crowded_cores(16, 50, 64).empty());
}

TEST_CASE("what is found between ranks that take turns names nobody", "[locate]") {
  LocateVerdict verdict;
  verdict.outcome = Outcome::fail;
  verdict.culprits.emplace_back().units = {0, 1};
  LocateVerdict own = verdict;
  doubt_shared_cores(own, "");
  CHECK((own.outcome == Outcome::fail && own.culprits.size() == 1));
  doubt_shared_cores(verdict, "others had the cores");
  CHECK((verdict.outcome == Outcome::inconclusive && verdict.culprits.empty()));
  CHECK(verdict.reason == "others had the cores");
  LocateVerdict healthy;
  healthy.outcome = Outcome::pass;
  doubt_shared_cores(healthy, "others had the cores");
  CHECK(healthy.outcome == Outcome::pass);
}
