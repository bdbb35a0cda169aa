// Would catch: a crash, NaN or infinity on inputs that no benchmark should make but some will: none, one, all equal,
// zeros, ties, tiny and huge times; and a value that is not a number dropped or sorted without a word.

#include "common/base/error.h"
#include "common/statistics/interval.h"
#include "common/statistics/paired.h"
#include "common/statistics/prediction.h"
#include "common/statistics/random.h"
#include "common/statistics/trend.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace busbar;

namespace {

/// Times as clocks make them: whole nanoseconds from a few to many, often equal.
std::vector<double> any_times(Random& random, std::size_t n) {
  const std::uint64_t kinds = 1 + random.below(3) * random.below(1000);
  const double unit = std::pow(10.0, static_cast<double>(random.below(12)) - 11);
  std::vector<double> times(n);
  for (double& time : times) time = unit * static_cast<double>(1 + random.below(kinds));
  return times;
}

bool ordered(const Interval& interval, double value) {
  return std::isfinite(interval.low) && std::isfinite(interval.high) && interval.low <= value && value <= interval.high;
}

bool probability(double p) { return p >= 0 && p <= 1; }

bool sane_series(const std::vector<double>& times) {
  std::vector<double> ends(times.size());  // some at the same moment
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = 0.01 * static_cast<double>(i / 3);
  const MedianPrediction estimate = predict_median(times, ends);
  const double lag1 = lag1_about_median(times);
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  bool sane = std::isfinite(estimate.value) && std::isfinite(estimate.correlation_time_s) && lag1 >= 0 && lag1 <= 0.9;
  sane = sane && (times.size() >= 6) == estimate.interval.has_value();
  if (estimate.interval) sane = sane && ordered(*estimate.interval, estimate.value);
  for (double q : {0.001, 0.5, 0.99}) {
    const auto interval = quantile_interval(sorted, q);
    sane = sane && (!interval || ordered(*interval, quantile(sorted, q)));
  }
  const auto modes = two_modes(times);
  const Outliers outliers = far_outliers(times);
  sane = sane && (!modes || modes->low < modes->high);
  return sane && probability(outliers.share_of_sum) && std::isfinite(spread_ratio(times));
}

bool sane_pair(const std::vector<double>& a, const std::vector<double>& b) {
  const auto logs = log_ratios(a, b);
  const auto ratio = round_ratio(logs);
  return (!ratio || ordered(ratio->interval, ratio->value)) && (a.size() >= 4) == ratio.has_value() &&
         probability(round_p(logs, 0.02)) && (logs.empty() || std::isfinite(hodges_lehmann(logs))) &&
         probability(probability_faster(a, b));
}

bool sane_fit(const std::vector<double>& times, Random& random) {
  std::vector<SizedTime> sized;
  for (double time : times) sized.push_back({1ULL << random.below(40), time});
  const auto fit = fit_hockney(sized);
  return !fit || (std::isfinite(fit->latency_s) && fit->latency_s >= 0 && fit->bandwidth > 0 &&
                  std::isfinite(fit->worst_relative_error));
}

}  // namespace

TEST_CASE("Any times of any number give finite, ordered results", "[statistics][hostile][slow]") {
  Random random(20261121);
  for (std::size_t trial = 0; trial < 2000; ++trial) {
    const std::size_t n = trial % 70;
    const auto a = any_times(random, n);
    const auto b = any_times(random, n);
    const bool sane = sane_series(a) && sane_pair(a, b) && sane_fit(a, random);
    CAPTURE(trial, n);
    REQUIRE(sane);
  }
}

TEST_CASE("Any launches give finite, ordered results", "[statistics][hostile]") {
  Random random(7);
  for (std::size_t count = 1; count < 10; ++count) {
    std::vector<std::vector<double>> launches;
    for (std::size_t i = 0; i < count; ++i) launches.push_back(any_times(random, 1 + random.below(8)));
    const auto merged = merge_launches(launches, count);
    CHECK(merged.few == (count < 6));
    CHECK(merged.interval.has_value() == (count > 1));
    if (merged.interval) CHECK(ordered(*merged.interval, merged.median));
    CHECK(merged.variance_between >= 0);
    CHECK(std::isfinite(merged.variance_within));
  }
}

TEST_CASE("A million samples take a moment", "[statistics][hostile]") {
  Random random(3);
  std::vector<double> samples(1000000);
  for (double& sample : samples) sample = 1 + random.unit();
  std::sort(samples.begin(), samples.end());
  const auto tail = quantile_interval(samples, 0.999);
  REQUIRE(tail);
  CHECK(ordered(*tail, quantile(samples, 0.999)));
  CHECK(trend_p(samples) < 1e-3);  // in rising order: nothing but trend
}

TEST_CASE("What is not a number is refused aloud", "[statistics][hostile]") {
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const std::vector<double> values{1, 2, 3, 4, 5, 6, 7, 8, bad};
    const std::vector<double> good(9, 1.0);
    CHECK_THROWS_AS(median(values), Error);
    CHECK_THROWS_AS(predict_median(values, good), Error);
    CHECK_THROWS_AS(exact_median_interval(values), Error);
    CHECK_THROWS_AS(trend_p(values), Error);
    CHECK_THROWS_AS(two_modes(values), Error);
    CHECK_THROWS_AS(far_outliers(values), Error);
    CHECK_THROWS_AS(spread_ratio(values), Error);
    CHECK_THROWS_AS(hodges_lehmann(values), Error);
    CHECK_THROWS_AS(holm(values), Error);
    CHECK_THROWS_AS(probability_faster(good, values), Error);
    CHECK_THROWS_AS(round_ratio(values), Error);
    CHECK_THROWS_AS(merge_launches(std::vector<std::vector<double>>{values}, 1), Error);
    CHECK_THROWS_AS(fit_hockney(std::vector<SizedTime>{{8, 1}, {16, bad}}), Error);
  }
  CHECK_THROWS_AS(spread_ratio(std::vector<double>{0, 1, 2}), Error);
  CHECK_THROWS_AS(fit_hockney(std::vector<SizedTime>{{8, 1}, {16, 0}}), Error);
}
