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
