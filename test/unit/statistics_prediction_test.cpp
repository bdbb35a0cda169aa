// Would catch: an interval that says how sure the past is, and not where the next minute lies; one that a spike moves;
// and a drift slower than the measurement taken for none. Expected numbers come from the same model computed another
// way: dense covariance matrices solved by elimination, Student's t integrated numerically, exact normal scores.

#include "common/statistics/prediction.h"
#include "synthetic_times.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

using namespace busbar;

namespace {

std::vector<double> every(double step_s, std::size_t n) {
  std::vector<double> times_s(n);
  for (std::size_t i = 0; i < n; ++i) times_s[i] = step_s * static_cast<double>(i);
  return times_s;
}

/// Epochs of a cell on a machine that drifts.
std::vector<double> drifting(double correlation_time_s, double step_s, std::size_t n, std::uint64_t seed) {
  DriftingMachine machine(correlation_time_s, seed);
  std::vector<double> medians;
  for (std::size_t i = 0; i < n; ++i) {
    machine.pass(step_s);
    medians.push_back(machine.epoch_median());
  }
  return medians;
}

}  // namespace

TEST_CASE("The prediction is that of the model by dense matrices", "[statistics][prediction]") {
  const std::vector<double> rising{10, 11, 10.5, 12, 11.5, 13, 12.5, 14, 13.5, 13};
  const MedianPrediction far = predict_median(rising, every(1, 10));
  CHECK(far.value == 12.25);
  CHECK(far.span_s == Approx(10));
  CHECK(far.correlation_time_s == Approx(2.38774).epsilon(2e-3));
  REQUIRE(far.interval);
  CHECK(far.interval->low == Approx(9.69336).epsilon(1e-3));
  CHECK(far.interval->high == Approx(14.19915).epsilon(1e-3));

  const std::vector<double> level{10, 12, 9, 11, 13, 10.5, 9.5, 12.5};
  const MedianPrediction near = predict_median(level, std::vector<double>{0, 0.5, 1, 1.5, 2, 3, 3.5, 4});
  CHECK(near.correlation_time_s == Approx(0.727525).epsilon(2e-3));
  REQUIRE(near.interval);
  CHECK(near.interval->low == Approx(9.01046).epsilon(1e-3));
  CHECK(near.interval->high == Approx(13.17498).epsilon(1e-3));
}

TEST_CASE("Fewer than six epochs predict nothing, equal ones themselves", "[statistics][prediction]") {
  CHECK(predict_median({}, {}).value == 0);
  const MedianPrediction few = predict_median(std::vector<double>{1, 2, 3, 4, 5}, every(1, 5));
  CHECK(few.value == 3);
  CHECK_FALSE(few.interval);
  CHECK(std::isinf(few.relative_half_width()));
  CHECK_FALSE(few.spans_correlation_time());
  for (double time_s : {3e-6, 0.0}) {
    const MedianPrediction equal = predict_median(std::vector<double>(10, time_s), every(1, 10));
    CHECK(equal.interval == Interval{time_s, time_s});
    CHECK(equal.relative_half_width() == 0);
    CHECK(equal.spans_correlation_time());
  }
  CHECK(MedianPrediction{.value = 10, .interval = Interval{9, 12}}.relative_half_width() == Approx(0.15));
}

TEST_CASE("Other units of time change nothing but the numbers", "[statistics][prediction]") {
  std::vector<double> medians = drifting(0.3, 0.02, 100, 5);
  const MedianPrediction seconds = predict_median(medians, every(0.02, 100));
  for (double& median : medians) median *= 0x1p-20;
  const MedianPrediction micro = predict_median(medians, every(0.02, 100));
  CHECK(micro.interval->low * 0x1p20 == Approx(seconds.interval->low));
  CHECK(micro.interval->high * 0x1p20 == Approx(seconds.interval->high));
  CHECK(micro.correlation_time_s == Approx(seconds.correlation_time_s));
}

TEST_CASE("A spike moves the interval as little at a thousand times as at twice", "[statistics][prediction]") {
  std::vector<double> medians = drifting(0.1, 0.05, 40, 9);
  const MedianPrediction clean = predict_median(medians, every(0.05, 40));
  medians[17] = medians[31] = 2;
  const MedianPrediction twice = predict_median(medians, every(0.05, 40));
  medians[17] = medians[31] = 1000;
  const MedianPrediction thousand = predict_median(medians, every(0.05, 40));
  CHECK(thousand.interval == twice.interval);
  CHECK(thousand.interval->high < 1.1 * clean.interval->high);
}

TEST_CASE("The correlation time of a drift is estimated where the span shows it, and doubted where not",
          "[statistics][prediction]") {
  int seen = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    const MedianPrediction sixty = predict_median(drifting(0.1, 0.01, 600, seed), every(0.01, 600));
    CHECK(sixty.correlation_time_s > 0.05);
    CHECK(sixty.correlation_time_s < 1.5);
    seen += sixty.spans_correlation_time() ? 1 : 0;
  }
  CHECK(seen >= 80);
  int doubted = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    doubted += predict_median(drifting(3, 0.02, 200, seed), every(0.02, 200)).spans_correlation_time() ? 0 : 1;
  }
  CHECK(doubted >= 75);  // 4 s of a correlation time of 3 s
}
