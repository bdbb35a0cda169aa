// Would catch: an interval that does not hold what it says on times as they are (neighbours alike, two regimes, drift,
// spikes). Each law is simulated hundreds of times with fixed seeds; its true median is known.
//
// Bounds: a share of n trials with true probability p has the standard deviation sqrt(p (1 - p) / n); four of them
// below 95 % would be missed by a right program for one set of seeds in 30000. With n = 500 that is 91.1 %.

#include "statistics_rates.h"

#include <catch2/catch.hpp>

using namespace busbar::rates;

namespace {

constexpr int kTrials = 500;
constexpr double kLeastShare = 0.911;

}  // namespace

TEST_CASE("Epochs spread over the job cover the median whatever the noise", "[statistics][coverage][slow]") {
  CHECK(coverage(Law::independent, 50, kLongGap, kTrials) > kLeastShare);
  CHECK(coverage(Law::ar1, 50, kLongGap, kTrials) > kLeastShare);
  CHECK(coverage(Law::regimes, 50, kLongGap, kTrials) > kLeastShare);
  CHECK(coverage(Law::drift, 50, kLongGap, kTrials) > kLeastShare);
}

TEST_CASE("Few epochs cover the median too", "[statistics][coverage]") {
  CHECK(coverage(Law::independent, 10, kLongGap, kTrials) > kLeastShare);
  CHECK(coverage(Law::regimes, 10, kLongGap, kTrials) > kLeastShare);
}

TEST_CASE("Epochs close together cover less where the level drifts, but far from naively", "[statistics][coverage]") {
  // The method's own figure is 91 %, less 4 standard deviations.
  CHECK(coverage(Law::drift, 50, 500, kTrials) > 0.859);
}

TEST_CASE("Quantiles are covered where epochs are slow as a whole, or are told without an interval",
          "[statistics][coverage][slow]") {
  const QuantileRates p90 = quantile_rates({}, 0.9, 120, kTrials);
  CHECK(p90.covered > kLeastShare);
  CHECK(p90.told == 1);
  CHECK(p90.naive < 0.6);
  const QuantileRates p95 = quantile_rates({}, 0.95, 120, kTrials);
  CHECK(p95.covered > kLeastShare);
  CHECK(p95.told > 0.9);
  CHECK(p95.naive < 0.6);
  // One of 40 may have met no burst.
  CHECK(quantile_rates({}, 0.95, 40, 50).told == 0);
  CHECK(quantile_rates({}, 0.99, 300, 20).told == 0);
  // Bursts of several epochs: the method's own figure is 89.8 %, less 4 standard deviations.
  const QuantileRates longer = quantile_rates({.share = 0.05, .length = 5}, 0.9, 400, kTrials);
  CHECK(longer.covered > 0.844);
  CHECK(longer.naive < 0.4);
  CHECK(longer.told > 0.9);
  // Nothing is lost where all are independent.
  const QuantileRates calm = quantile_rates({.share = 0}, 0.99, 400, kTrials);
  CHECK(calm.covered > kLeastShare);
  CHECK(calm.told > 0.5);
}

TEST_CASE("Calls in a row do not cover: the laws are hard enough to fail on", "[statistics][coverage]") {
  CHECK(naive_coverage(Law::independent, 1, kTrials) > kLeastShare);
  CHECK(naive_coverage(Law::ar1, 1, kTrials) < 0.4);
  CHECK(naive_coverage(Law::regimes, kRegimesMedian, kTrials) < 0.4);
  CHECK(naive_coverage(Law::drift, 1, kTrials) < 0.2);
}

TEST_CASE("Stopping when the interval is narrow does not spoil it", "[statistics][coverage][stop][slow]") {
  // 100 trials: 95 % less 4 standard deviations is 86.3 %. Epochs of sd 2.7 % need about 60 for 1 %.
  const Stopped stopped = run_to_stop(Law::independent, 0.01, 100);
  // A prediction that does not know the correlation time is wider: 96 reach 1 % within 200.
  CHECK(stopped.precise >= 95);
  CHECK(stopped.covered >= 0.863 * stopped.precise);
}

TEST_CASE("A cell that cannot be precise is noisy, and early", "[statistics][coverage][stop][slow]") {
  // sd 10 %: about 400 epochs and more for 1 %, and 200 are allowed.
  const Stopped stopped = run_to_stop(Law::drift, 0.01, 100);
  CHECK(stopped.noisy >= 95);
}
