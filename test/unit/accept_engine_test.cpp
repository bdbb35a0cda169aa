// Would catch: an interrupted acceptance that counts half a step as measured, measures a finished one again, or mixes
// launches that want different environments.

#include "tools/accept_merge.h"
#include "tools/accept_steps.h"

#include <catch2/catch.hpp>

using namespace busbar;

namespace {

AcceptPlan plan_of_three() {
  return read_accept_plan(R"(schema: 1
stages: [doctor, per-host, pairs, whole]
cells:
  - name: small
    collective: all_reduce
    stages: [per-host, whole]
    sizes: [8, 1K]
  - name: ring
    collective: all_reduce
    stages: [whole]
    sizes: [1M]
    env: {NCCL_ALGO: Ring}
  - name: again
    collective: broadcast
    stages: [whole]
    sizes: [1M]
    env: {NCCL_ALGO: Ring}
)",
                          "plan.yaml");
}

std::vector<std::string> ids(const std::vector<AcceptStep>& steps) {
  std::vector<std::string> all;
  for (const AcceptStep& step : steps) all.push_back(step.id);
  return all;
}

MeasuredCell cell(const std::string& name, Stage stage, double median_s) {
  MeasuredCell m;
  m.cell = name;
  m.stage = stage;
  m.scope = "all";
  m.nbytes = 8;
  m.median_s = median_s;
  return m;
}

}  // namespace

TEST_CASE("Steps follow the plan's stages, parts share stage and environment", "[accept]") {
  const AcceptPlan plan = plan_of_three();
  const auto steps = steps_of(plan);
  CHECK(ids(steps) ==
        std::vector<std::string>{"doctor", "per-host/small", "pairs", "whole/small", "whole/ring", "whole/again"});
  const auto parts = parts_of(plan, steps);
  REQUIRE(parts.size() == 5);
  CHECK(ids(parts[4].steps) == std::vector<std::string>{"whole/ring", "whole/again"});
  CHECK(parts[4].environment.front().second == "Ring");
  CHECK(parts[3].environment.empty());
  CHECK(find_step(plan, "whole/ring").cell == 1);
  CHECK_THROWS(find_step(plan, "whole/nothing"));
}

TEST_CASE("A part brings what it finished, and nothing of the step that it did not", "[accept]") {
  AcceptResult whole;
  AcceptResult part;
  part.hosts = {{"node0", {0}, "host memory"}};
  part.cells = {cell("small", Stage::whole, 1), cell("ring", Stage::whole, 2)};
  part.done = {"whole/small"};
  add_part(whole, part);
  REQUIRE(whole.cells.size() == 1);
  CHECK(whole.cells[0].cell == "small");
  CHECK(whole.hosts.size() == 1);
  part.cells = {cell("small", Stage::whole, 3), cell("ring", Stage::whole, 4)};
  part.done = {"whole/small", "whole/ring"};
  add_part(whole, part);
  REQUIRE(whole.cells.size() == 2);
  CHECK(whole.cells[0].median_s == 3);
  CHECK(whole.done == std::vector<std::string>{"whole/small", "whole/ring"});
  CHECK(whole.hosts.size() == 1);
}

TEST_CASE("A resumed run keeps finished steps alone", "[accept]") {
  AcceptResult earlier;
  earlier.start_time = "then";
  earlier.cells = {cell("small", Stage::whole, 1), cell("ring", Stage::whole, 2)};
  earlier.done = {"whole/small", "doctor"};
  AcceptResult result;
  take_over(result, earlier);
  REQUIRE(result.cells.size() == 1);
  CHECK(result.cells[0].cell == "small");
  CHECK(result.done.size() == 2);
  CHECK(result.start_time == "then");
}
