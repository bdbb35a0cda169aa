// The bugs these would catch: launches that did not measure the same thing compared all the same, a row that one
// variant left out taken for a fast one, a difference claimed that Holm's adjustment cannot let pass.

#include "common/base/error.h"
#include "driver/compare/launch_rounds.h"
#include "run_fixture.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace busbar;

namespace {

/// One launch per entry, of one size.
LaunchedVariant runs(const std::string& label, const std::vector<double>& medians_us, std::uint64_t nbytes = 1024) {
  LaunchedVariant of{{label, {{"NAME", label}}}, {}, {}, {}};
  for (const double median_us : medians_us) {
    of.runs.push_back(
        read_run(fake_run({.cells = {{.nbytes = nbytes, .median_us = median_us, .epochs_us = {median_us}}}}), label));
  }
  return of;
}

}  // namespace

TEST_CASE("Launches apart are told apart, and equal ones are not", "[launch_results][unit]") {
  // Each fast launch takes half of what the one beside it takes; of the others five take 1 % more, one 10 % less.
  const std::vector<LaunchedVariant> variants{runs("default", {100, 102, 104, 106, 108, 110}),
                                              runs("fast", {50, 51, 52, 53, 54, 55}),
                                              runs("same", {101, 103, 105, 107, 109, 99})};
  const std::vector<Comparison> all = compare_runs(kAllReduce, variants, 0.02, false);
  REQUIRE(all.size() == 1);
  const Comparison& c = all.front();
  CHECK(c.between_launches);
  CHECK(c.nranks == 2);
  CHECK(c.nnodes == 1);
  CHECK(c.backend == "mpi");
  REQUIRE(c.cases.size() == 1);
  const ComparedCase& at = c.cases.front();
  CHECK(at.row_case.nbytes == 1024);
  CHECK(at.row_case.problem.count == 256);
  CHECK(at.rounds == 6);
  CHECK(at.winner == 1);
  CHECK(at.variants[0].median_s == Approx(105e-6));
  CHECK(at.variants[1].p < 1e-9);
  CHECK(at.variants[1].adjusted_p < 1e-9);
  CHECK(at.variants[1].ratio->value == Approx(0.5));
  CHECK(at.variants[1].difference == Difference::faster);
  CHECK(at.variants[1].probability_faster == 1);
  CHECK(at.variants[2].difference == Difference::undecided);
  CHECK(at.variants[2].p > 0.5);
}

TEST_CASE("A launch that failed, a row left out and wrong data never win", "[launch_results][unit]") {
  std::vector<LaunchedVariant> variants{runs("default", {100, 102, 104, 106, 108, 110}), runs("failed", {}),
                                        runs("other_size", {1, 1, 1, 1, 1, 1}, 2048),
                                        runs("wrong", {1, 1, 1, 1, 1, 1})};
  variants[1].why_not = "exit code 3: out of luck";
  variants[3].runs[4].cells[0].wrong = 17;
  const std::vector<Comparison> all = compare_runs(kAllReduce, variants, 0.02, false);
  const ComparedCase& at = all.front().cases.front();
  CHECK(at.variants[1].why_not == "exit code 3: out of luck");
  CHECK(at.variants[2].why_not == "the launch did not measure this row");
  CHECK(at.variants[3].wrong == 17);
  CHECK(at.winner == -1);
  CHECK(at.regret == 0);
}

TEST_CASE("Launches that measured something else are refused", "[launch_results][unit]") {
  std::vector<LaunchedVariant> variants{runs("default", {100, 102}), runs("b", {100, 102})};
  variants[1].runs[1].nranks = 4;
  CHECK_THROWS_WITH(compare_runs(kAllReduce, variants, 0.02, false),
                    Catch::Contains("did not measure the same: ranks 2 and 4"));
  variants[1].runs[1].nranks = 2;
  variants[1].runs[1].cadence = "stream";
  CHECK_THROWS_WITH(compare_runs(kAllReduce, variants, 0.02, false), Catch::Contains("cadence"));
  variants[1].runs[1].cadence = variants[0].runs[0].cadence;
  variants[1].runs[1].buffers = "reuse";
  CHECK_THROWS_WITH(compare_runs(kAllReduce, variants, 0.02, false), Catch::Contains("buffers"));
  variants[1].runs[1].buffers = variants[0].runs[0].buffers;
  variants[1].runs[1].mpi_threads = "funneled";
  CHECK_THROWS_WITH(compare_runs(kAllReduce, variants, 0.02, false),
                    Catch::Contains("MPI threads single and funneled"));
  CHECK_THROWS_AS(compare_runs(kAllReduce, std::vector<LaunchedVariant>{runs("default", {})}, 0.02, false), Error);
}

TEST_CASE("More cells need more launches", "[launch_results][unit]") {
  // Two-sided p of Student's t at 2 sqrt(n), by Simpson's rule on its density: 0.004478, 0.001845, 0.0007690, 0.0003234
  // for n = 6 .. 9; 0.05 over these is 11.2, 27.1, 65.02, 154.6.
  CHECK(launches_for(1) == 6);
  CHECK(launches_for(11) == 6);
  CHECK(launches_for(12) == 7);
  CHECK(launches_for(27) == 7);
  CHECK(launches_for(28) == 8);
  CHECK(launches_for(65) == 8);
  CHECK(launches_for(66) == 9);
}
