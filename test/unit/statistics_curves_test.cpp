// Would catch: a crossover lost between ties or invented from undecided sizes, a harmless regret where nothing was
// measured, and a Hockney fit that the largest sizes dictate.

#include "common/statistics/paired.h"
#include "driver/merge/merged_runs.h"
#include "statistics_rates.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

using namespace busbar;
using namespace busbar::rates;

namespace {

SizedVerdict at(std::uint64_t nbytes, Difference difference, double low, double high) {
  return {.nbytes = nbytes, .difference = difference, .ratio = {.value = (low + high) / 2, .interval = {low, high}}};
}

constexpr auto kFaster = Difference::faster;
constexpr auto kSlower = Difference::slower;
constexpr auto kTie = Difference::equivalent;
constexpr auto kOpen = Difference::undecided;

}  // namespace

TEST_CASE("A crossover lies between the nearest decided sizes of opposite winners", "[statistics][curves]") {
  const auto found = crossovers(std::vector<SizedVerdict>{at(8, kSlower, 1.5, 1.6), at(16, kSlower, 1.2, 1.3),
                                                          at(32, kTie, 0.99, 1.01), at(64, kOpen, 0.92, 1.03),
                                                          at(128, kFaster, 0.7, 0.8)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].low == 16);
  CHECK(found[0].high == 128);
  CHECK(found[0].b_wins_above);
  CHECK(found[0].regret == Approx(1 / 0.7 - 1));  // at 128 bytes A may cost so much more than B
}

TEST_CASE("A wrong choice next to an end costs what it costs at the end", "[statistics][curves]") {
  // 1.59 at the lower end and 0.92 at the upper: the undecided size between them said 3.1 %.
  const auto found = crossovers(
      std::vector<SizedVerdict>{at(8, kSlower, 1.55, 1.59), at(16, kOpen, 0.97, 1.03), at(32, kFaster, 0.92, 0.95)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].regret == Approx(0.59));
}

TEST_CASE("Between neighbours the regret is the ends' own", "[statistics][curves]") {
  const auto found = crossovers(std::vector<SizedVerdict>{at(8, kFaster, 0.80, 0.85), at(16, kSlower, 1.1, 1.2)});
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].b_wins_above);
  CHECK(found[0].regret == Approx(0.25));
}

TEST_CASE("Every change of the winner is reported, ties alone are none", "[statistics][curves]") {
  const auto found = crossovers(std::vector<SizedVerdict>{at(8, kOpen, 0.9, 1.1), at(16, kSlower, 1.2, 1.3),
                                                          at(32, kFaster, 0.7, 0.8), at(64, kFaster, 0.7, 0.8),
                                                          at(128, kSlower, 1.2, 1.3), at(256, kTie, 0.99, 1.01)});
  REQUIRE(found.size() == 2);
  CHECK((found[0].low == 16 && found[0].high == 32 && found[0].b_wins_above));
  CHECK((found[1].low == 64 && found[1].high == 128 && !found[1].b_wins_above));
  CHECK(crossovers({}).empty());
  CHECK(crossovers(std::vector<SizedVerdict>{at(8, kSlower, 1.2, 1.3), at(16, kTie, 0.99, 1.01)}).empty());
}

TEST_CASE("Hockney's parameters come back from a curve made of them", "[statistics][curves]") {
  std::vector<SizedTime> times;
  for (std::uint64_t nbytes = 8; nbytes <= 64 << 20; nbytes *= 2) {
    times.push_back({nbytes, 3e-6 + static_cast<double>(nbytes) / 12.5e9});
  }
  const auto fit = fit_hockney(times);
  REQUIRE(fit);
  CHECK(fit->latency_s == Approx(3e-6).epsilon(1e-9));
  CHECK(fit->bandwidth == Approx(12.5e9).epsilon(1e-9));
  CHECK(fit->worst_relative_error < 1e-9);
}

TEST_CASE("Hockney's fit minimises relative errors", "[statistics][curves]") {
  // numpy.linalg.lstsq on columns 1/t and bytes/t
  const auto fit = fit_hockney(std::vector<SizedTime>{{8, 2e-6}, {1024, 2.2e-6}, {65536, 9e-6}, {1048576, 1.1e-4}});
  REQUIRE(fit);
  CHECK(fit->latency_s == Approx(2.0449526021666877e-06).epsilon(1e-9));
  CHECK(fit->bandwidth == Approx(9597558971.692932).epsilon(1e-9));
  CHECK(fit->worst_relative_error == Approx(0.02289307372436622).epsilon(1e-7));
}

TEST_CASE("Hockney's fit knows no negative latency and no negative bandwidth", "[statistics][curves]") {
  const auto falling = fit_hockney(std::vector<SizedTime>{{8, 2e-6}, {16, 1e-6}});
  REQUIRE(falling);
  CHECK(std::isinf(falling->bandwidth));
  CHECK(falling->latency_s == Approx(1.2e-6));  // sum(1/t) / sum(1/t^2) = 1.5e6 / 1.25e12
  const auto steep = fit_hockney(std::vector<SizedTime>{{10, 1e-6}, {20, 4e-6}});
  REQUIRE(steep);
  CHECK(steep->latency_s == 0);
  CHECK(steep->bandwidth == Approx(125e12 / 15e6));  // sum v^2 / sum v, v = bytes / time: 10e6 and 5e6
  CHECK_FALSE(fit_hockney({}));
  CHECK_FALSE(fit_hockney(std::vector<SizedTime>{{8, 1e-6}, {8, 2e-6}}));
}

TEST_CASE("Six launches have an interval by order statistics, fewer a bootstrap that says so",
          "[statistics][launches]") {
  const auto one = merge_launches(launches(1, 0.1, 0.02, 1), 7);
  CHECK(one.few);
  CHECK_FALSE(one.interval);
  const auto six = launches(6, 0.1, 0.02, 2);
  const auto merged = merge_launches(six, 7);
  CHECK_FALSE(merged.few);
  std::vector<double> medians;
  for (const auto& launch : six) medians.push_back(median(launch));
  CHECK(merged.interval->low == *std::min_element(medians.begin(), medians.end()));
  CHECK(merged.interval->high == *std::max_element(medians.begin(), medians.end()));
  const auto three = launches(3, 0.1, 0.02, 3);
  const auto few = merge_launches(three, 7);
  CHECK(few.few);
  REQUIRE(few.interval);
  CHECK(few.interval->low < few.median);
  CHECK(few.interval->high > few.median);
  CHECK(few.interval == merge_launches(three, 7).interval);
  CHECK_FALSE(merge_launches(three).interval);
  CHECK(merge_launches({}, 7).median == 0);
  // The interval of six epochs' median is all of them: ln from 0 to 5, (5 / 2 / 1.96)^2 for the median, six times that.
  std::vector<double> epochs;
  for (int i = 0; i < 6; ++i) epochs.push_back(std::exp(i));
  CHECK(merge_launches(std::vector<std::vector<double>>{epochs}).variance_within == Approx(9.7616).epsilon(1e-4));
  CHECK_THROWS(merge_launches(std::vector<std::vector<double>>{{1, 2}, {}}, 7));
}

TEST_CASE("Variance is split into that between launches and that within", "[statistics][launches]") {
  // By hand, in logarithms: launches {1, 3} and {5, 7} vary by ln(3)^2 / 2 and ln(1.4)^2 / 2 within, 0.3301 on average,
  // of which a median of two has half; the medians 2 and 6 by ln(3)^2 / 2.
  const auto split = merge_launches(std::vector<std::vector<double>>{{1, 3}, {5, 7}}, 1);
  CHECK(split.median == 4);
  CHECK(split.variance_within == Approx(0.33004).epsilon(1e-4));
  CHECK(split.variance_between == Approx(0.43843).epsilon(1e-4));
  CHECK(merge_launches(std::vector<std::vector<double>>{{1, 9}, {2, 8}}, 1).variance_between == 0);
}

TEST_CASE("A few epochs many times as long do not hide that launches differ", "[statistics][launches]") {
  // The raw variance of the epochs explained all of it in 94 %, and 10000 epochs per launch were advised.
  const Between said = between_with_spikes(300);
  CHECK(said.none == 0);
  CHECK(said.mean > 0.045);
  CHECK(said.mean < 0.053);
}

TEST_CASE("Launches near in time do not cover what the machine shows in the long run", "[statistics][launches]") {
  // Hence merge's warning: 3 s of a correlation time of 60 s apart, and three correlation times apart (the exact level
  // is 96.9 %).
  CHECK(spaced_covered(0.05, 400) < 0.5 * 400);
  CHECK(spaced_covered(3, 400) > 0.92 * 400);
}

TEST_CASE("Launches' interval covers at its level from 6 on, and too rarely below", "[statistics][launches]") {
  // 1 - 2/2^6 = 96.9 %, less 4 standard deviations of a share of 300. The range of 3 launches covers in 1 - 2/2^3 = 75
  // % of cases, and the bootstrap hardly leaves it: 45 of 60, plus 4 standard deviations, is below 59. Hence the label.
  CHECK(launches_covered(6, 300) > 0.928 * 300);
  CHECK(launches_covered(3, 60) < 59);
}

TEST_CASE("Epochs per launch follow Kalibera and Jones", "[statistics][launches]") {
  CHECK(best_epochs_per_launch(3, 0.01, 1, 4) == 35);  // ceil sqrt(300 * 4) = ceil 34.6
  CHECK(best_epochs_per_launch(1, 1, 4, 1) == 1);
  CHECK(best_epochs_per_launch(3, 0.01, 1, 0) == 1);
  CHECK(best_epochs_per_launch(3, 0.01, 0, 4) == 10000);
}
