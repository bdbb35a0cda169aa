// Would catch: an interrupted acceptance that counts half a step as measured, measures a finished one again, or mixes
// launches that want different environments; hours of repetitions that forget what only one of them found, or that go
// round with nothing to measure or with max-time over; a process that decides by what it alone knows, which hangs the
// job; a baseline none of whose rows are found.

#include "driver/accept/accept_engine.h"

#include "common/base/read_file.h"
#include "common/record/accept_result.h"
#include "driver/accept/read_accept_plan.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>
#include <optional>

using namespace busbar;
using Catch::Contains;

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

Cell cell(const std::string& name, Stage stage, double median_s) {
  Cell m;
  m.cell = name;
  m.stage = stage;
  m.scope = "all";
  m.nbytes = 8;
  m.median_s = median_s;
  return m;
}

AcceptPlan plan_of_two(const std::string& more) {
  return read_accept_plan("schema: 1\nstages: [doctor, whole]\n" + more + R"(
cells:
  - name: small
    collective: all_reduce
    stages: [whole]
    sizes: [8]
  - name: large
    collective: all_reduce
    stages: [whole]
    sizes: [1M]
)",
                          "plan.yaml");
}

/// Measures every step at once; says what it was asked, and the answers that were agreed.
class FakeRunner : public StepRunner {
 public:
  /// `answers`: of the process that writes, for another one; without them this one writes.
  explicit FakeRunner(std::optional<std::deque<double>> answers = std::nullopt) : answers_(std::move(answers)) {}

  double agree(double mine) const override {
    if (answers_) {
      REQUIRE_FALSE(answers_->empty());
      mine = answers_->front();
      answers_->pop_front();
    }
    agreed.push_back(mine);
    calls.emplace_back("agree");
    return mine;
  }
  void on_root(const std::function<void()>& work) const override {
    calls.emplace_back("on_root");
    if (!answers_) work();
  }
  std::vector<std::string> run(AcceptResult& result, const std::vector<AcceptStep>& pending, int repetition,
                               double left_s) override {
    const AcceptStep& step = pending.front();
    left.push_back(left_s);
    if (!answers_ && later_s > 0 && !result.located) result.located.emplace().later_s = later_s;
    calls.push_back(step.id + " " + std::to_string(repetition));
    if (!answers_ && step.cell >= 0 && repetition <= last_that_measures) {
      Cell cell;
      cell.cell = result.plan.cells.at(static_cast<std::size_t>(step.cell)).name;
      cell.stage = step.stage;
      cell.repetition = repetition;
      result.cells.push_back(cell);
    }
    if (!answers_ && repetition == 0) result.done.push_back(step.id);
    return {step.id};
  }
  bool can_locate(const AcceptResult& /*result*/) const override { return true; }
  void locate(AcceptResult& /*result*/) override { calls.emplace_back("locate"); }

  std::vector<std::string> steps() const {
    std::vector<std::string> steps = calls;
    std::erase_if(steps, [](const std::string& call) { return call == "agree" || call == "on_root"; });
    return steps;
  }

  int last_that_measures = 0;
  double later_s = 0;  ///< that its first step asked again after a slow host
  std::vector<double> left;
  mutable std::vector<std::string> calls;
  mutable std::deque<double> agreed;

 private:
  mutable std::optional<std::deque<double>> answers_;
};

ExitCode accept_in(const TempDir& folder, const AcceptPlan& plan, StepRunner& runner) {
  AcceptOptions options;
  options.results = folder.file("results.json");
  return run_acceptance({}, options, plan, runner);
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

TEST_CASE("A step is expected to take what its cells may take, for on a machine that drifts they do", "[accept]") {
  AcceptPlan plan = plan_of_three();
  const auto seconds = [&](const char* id, double cell_time_s, int epochs, double max_time_s = 120) {
    for (PlanCell& c : plan.cells) {
      c.config.placement = Placements::out;
      c.config.cell_time_s = cell_time_s;
      c.config.epochs = epochs;
      c.config.max_time_s = max_time_s;
    }
    return estimate_step_s(plan, find_step(plan, id));
  };
  CHECK(seconds("whole/ring", 2, 400) == Approx(2 + 1));
  CHECK(seconds("whole/small", 3, 400) == Approx(2 * 3 + 1));     // two sizes
  CHECK(seconds("whole/ring", 20, 400) == Approx(4.2 + 1));       // 400 epochs of 10.5 ms come first
  CHECK(seconds("whole/small", 20, 400, 5) == Approx(5 + 1));     // and max-time
  CHECK(seconds("whole/ring", 0.1, 400) == Approx(2.0 / 3 + 1));  // its third of the least span
  CHECK(seconds("doctor", 2, 400) == Approx(3));
}

TEST_CASE("What pairs may take beside max-time is said before", "[accept]") {
  const auto dry = [](const char* more) { return accept_dry_run(plan_of_two(more), false); };
  CHECK_THAT(dry("max-time: 30"), Contains(", at most 30 s, and up to 4 min more if a host looks slow\n"));
  CHECK_THAT(dry("locate-looks-time: 20s"), Contains(", and up to 20 s more if a host looks slow\n"));
  CHECK_THAT(dry("locate-looks-time: 0"), !Contains("looks slow"));
  CHECK_THAT(dry("locate-on-fail: false"), !Contains("looks slow"));
}

TEST_CASE("What is measured first leaves the later steps the time of their estimates", "[accept]") {
  const AcceptPlan plan = plan_of_three();
  const std::vector<AcceptStep> steps = steps_of(plan);
  double later_s = 0, all_s = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    all_s += estimate_step_s(plan, steps[i]);
    if (i > 0) later_s += estimate_step_s(plan, steps[i]);
  }
  CHECK(share_of(1000, plan, steps, 1) == Approx(1000 - later_s));
  CHECK(share_of(all_s / 2, plan, steps, 1) == Approx((all_s - later_s) / 2));  // too little for all: in proportion
  CHECK(share_of(50, plan, steps, steps.size()) == Approx(50));
  CHECK(share_of(0, plan, steps, 1) == 0);  // no bound
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

TEST_CASE("A finished run that is resumed says of the machine what it said unbroken", "[accept]") {
  // Launches report these; a resumed run of which nothing was left to measure started none, and had lost them: 44
  // criteria became 43.
  AcceptResult earlier;
  earlier.backend = "mpi";
  earlier.library = "Open MPI 4.1.4";
  earlier.network = "ethernet";
  earlier.counters_read = true;
  earlier.remarks = {"4 ranks on 2 cores: yielding when idle", "max-time 2 s was over before whole/small: raise it"};
  AcceptResult result;
  take_over(result, earlier);
  CHECK(result.backend == "mpi");
  CHECK(result.library == "Open MPI 4.1.4");
  CHECK(result.network == "ethernet");
  CHECK(result.counters_read);
  REQUIRE(result.remarks.size() == 2);  // the other, and that it was resumed
  CHECK(result.remarks[0] == "4 ranks on 2 cores: yielding when idle");
  AcceptResult again;
  again.library = "Open MPI 5";  // the launches of now count
  take_over(again, result);
  CHECK(again.library == "Open MPI 5");
  CHECK(again.remarks == result.remarks);
}

TEST_CASE("A resumed burn-in goes on in the repetition that was under way", "[accept]") {
  AcceptResult result;
  result.plan = plan_of_three();
  result.done = {"doctor", "per-host/small", "pairs", "whole/small", "whole/ring", "whole/again"};
  CHECK(last_repetition(result) == 0);
  result.cells = {cell("small", Stage::whole, 1), cell("small", Stage::whole, 1), cell("ring", Stage::whole, 1)};
  result.cells[1].repetition = result.cells[2].repetition = 3;
  CHECK(last_repetition(result) == 3);
  const auto has = [&](const std::string& id, int repetition) {
    return is_measured(result, find_step(result.plan, id), repetition);
  };
  CHECK(has("whole/again", 0));
  CHECK(has("whole/small", 3));
  CHECK(has("whole/ring", 3));
  CHECK_FALSE(has("per-host/small", 3));
  CHECK_FALSE(has("whole/again", 3));
  CHECK_FALSE(has("whole/small", 4));
  CHECK_FALSE(has("pairs", 3));
  result.elapsed_s = 7200;
  AcceptResult next;
  take_over(next, result);
  CHECK(next.elapsed_s == 7200);
}

TEST_CASE("Of several looks at the pairs the worst finding stands, with all culprits", "[accept]") {
  const auto look = [](Outcome outcome, int unit) {
    AcceptResult::Located l;
    l.units = {"node0", "node1", "node2"};
    l.finding.outcome = outcome;
    if (unit >= 0) l.finding.culprits.resize(1);
    if (unit >= 0) l.finding.culprits[0].units = {unit};
    return l;
  };
  AcceptResult result;
  add_located(result, look(Outcome::inconclusive, -1));
  CHECK(result.located->finding.outcome == Outcome::inconclusive);
  add_located(result, look(Outcome::pass, -1));
  CHECK(result.located->finding.outcome == Outcome::pass);
  add_located(result, look(Outcome::fail, 2));
  add_located(result, look(Outcome::pass, -1));
  CHECK(result.located->finding.outcome == Outcome::fail);
  add_located(result, look(Outcome::fail, 0));
  add_located(result, look(Outcome::fail, 2));
  REQUIRE(result.located->finding.culprits.size() == 2);
  CHECK(result.located->finding.culprits[0].units == std::vector<int>{2});
  CHECK(result.located->finding.culprits[1].units == std::vector<int>{0});
  CHECK(result.located->looks == 6);
  CHECK(result.located->failed == 3);
  CHECK(result.located->unclear == 1);
  // A slow rank is a finding although the pairs are well.
  AcceptResult::Located slow = look(Outcome::pass, -1);
  slow.slow_ranks = {{5, "node2", Outcome::fail, "slow"}};
  AcceptResult other;
  add_located(other, slow);
  add_located(other, look(Outcome::pass, -1));
  CHECK(other.located->slow_ranks.size() == 1);
  CHECK(other.located->failed == 1);
}

TEST_CASE("A repetition that measures nothing is the last", "[accept]") {
  const TempDir folder;
  FakeRunner runner;
  runner.last_that_measures = 2;
  accept_in(folder, plan_of_two("repeat-for: 10h"), runner);
  CHECK(runner.steps() == std::vector<std::string>{"doctor 0", "whole/small 0", "whole/large 0", "whole/small 1",
                                                   "whole/large 1", "whole/small 2", "whole/large 2", "whole/small 3",
                                                   "whole/large 3"});
}

TEST_CASE("Repetitions end with max-time", "[accept]") {
  const TempDir folder;
  FakeRunner runner;
  AcceptPlan plan = plan_of_two("repeat-for: 10h");
  plan.max_time_s = 1e-9;
  accept_in(folder, plan, runner);
  CHECK(runner.steps().empty());
}

TEST_CASE("Asking again after a slow host is beside max-time", "[accept]") {
  const TempDir folder;
  FakeRunner runner;
  runner.later_s = 1000;
  accept_in(folder, plan_of_two("max-time: 30"), runner);
  CHECK(runner.steps() == std::vector<std::string>{"doctor 0", "whole/small 0", "whole/large 0"});
  REQUIRE(runner.left.size() == 3);
  CHECK(runner.left[0] <= 30);
  CHECK(runner.left[1] > 1000);  // of a step that took no time itself
}

TEST_CASE("A process that knows nothing but agreed answers takes the same way", "[accept]") {
  const TempDir folder;
  FakeRunner root;
  root.last_that_measures = 3;
  const AcceptPlan plan = plan_of_two("repeat-for: 10h\nmax-time: 10h");
  const ExitCode code = accept_in(folder, plan, root);
  FakeRunner other(root.agreed);
  CHECK(accept_in(folder, plan, other) == code);
  CHECK(other.calls == root.calls);
}

TEST_CASE("Several baselines must be of one plan", "[accept]") {
  // Cells are told by their place in the plan: of another one they would be taken for what they are not.
  const TempDir folder, other;
  FakeRunner first, second, again;
  accept_in(folder, plan_of_two(""), first);
  accept_in(other, plan_of_two("max-time: 1h"), second);
  AcceptOptions options;
  options.results = folder.file("again.json");
  options.baseline = folder.file("results.json") + "," + other.file("results.json");
  CHECK_THROWS_WITH(run_acceptance({}, options, plan_of_two(""), again), Contains("its plan"));
  options.baseline = folder.file("results.json") + "," + folder.file("results.json");
  CHECK_NOTHROW(run_acceptance({}, options, plan_of_two(""), again));
}

TEST_CASE("The rows of an earlier run are found in its file", "[accept]") {
  const TempDir folder;
  FakeRunner first;
  accept_in(folder, plan_of_two(""), first);
  FakeRunner again;
  AcceptOptions options;
  options.results = folder.file("again.json");
  options.baseline = folder.file("results.json");
  run_acceptance({}, options, plan_of_two(""), again);
  const AcceptResult result = read_accept_json(read_file(options.results, "results"), options.results);
  const auto whole = std::find_if(result.criteria.begin(), result.criteria.end(), [](const CriterionResult& c) {
    return c.criterion == Criterion::baseline && c.cell.empty();
  });
  REQUIRE(whole != result.criteria.end());
  CHECK(whole->found.starts_with("2 of 2 rows"));
}
