// Would catch: an interval one order statistic too narrow or wide, a p99 of 20 samples, a stop on a lucky interval.

#include "common/statistics/distributions.h"
#include "common/statistics/interval.h"
#include "common/statistics/stop_rule.h"

#include <catch2/catch.hpp>

#include <limits>
#include <numeric>

using namespace busbar;

namespace {

/// 1 .. n: a value is its own rank.
std::vector<double> ranks(std::size_t n) {
  std::vector<double> values(n);
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

/// Runs of these lengths, alternately of rising low ranks and of rising high ones.
std::vector<double> runs(const std::vector<int>& lengths) {
  double low = 1;
  double high = 1 + std::accumulate(lengths.begin(), lengths.end(), 0) / 2;
  std::vector<double> series;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (int k = 0; k < lengths[i]; ++k) series.push_back(i % 2 == 0 ? low++ : high++);
  }
  return series;
}

}  // namespace

TEST_CASE("Binomial tails and normal quantiles are scipy's", "[statistics][interval]") {
  CHECK(binomial_cdf(20, 0.5, 5) == Approx(0.020694732666015625).epsilon(1e-12));
  CHECK(binomial_cdf(400, 0.05, 10) == Approx(0.009398598442062254).epsilon(1e-11));
  CHECK(binomial_cdf(1000, 0.5, 520) == Approx(0.9026168357691174).epsilon(1e-11));
  CHECK(binomial_cdf(1000000, 0.5, 499000) == Approx(0.0228041499326948).epsilon(1e-7));
  CHECK(binomial_cdf(1000000, 0.99, 989800) == Approx(0.022742497360527417).epsilon(1e-7));
  CHECK(binomial_cdf(5, 0.5, -1) == 0);
  CHECK(binomial_cdf(5, 0.5, 5) == 1);
  CHECK(binomial_cdf(5, 0.5, 0) == Approx(1.0 / 32));
  CHECK(normal_quantile(0.975) == Approx(1.959963984540054).epsilon(1e-12));
  CHECK(normal_quantile(0.5) == Approx(0).margin(1e-12));
}

TEST_CASE("The median is the middle value or the mean of the two middle ones", "[statistics][interval]") {
  CHECK(median({}) == 0);
  CHECK(median(std::vector<double>{7}) == 7);
  CHECK(median(std::vector<double>{9, 1, 4}) == 4);
  CHECK(median(std::vector<double>{9, 1, 4, 5}) == 4.5);
}

TEST_CASE("A quantile is the nearest rank, also where the product is not a whole number by an ulp",
          "[statistics][interval]") {
  CHECK(quantile({}, 0.5) == 0);
  CHECK(quantile(ranks(20), 0.99) == 20);
  CHECK(quantile(ranks(20), 0.95) == 19);
  CHECK(quantile(ranks(100), 0.07) == 7);  // 0.07 * 100 = 7.000000000000001
  CHECK(quantile(ranks(1000), 0.999) == 999);
  CHECK(quantile(ranks(10), 0) == 1);
  CHECK(quantile(ranks(10), 1) == 10);
}

TEST_CASE("The exact interval of the median has the ranks of the sign test", "[statistics][interval]") {
  CHECK_FALSE(exact_median_interval(ranks(5)));  // 2 / 2^5 = 6.25 %
  CHECK(exact_median_interval(ranks(6)) == Interval{1, 6});
  CHECK(exact_median_interval(ranks(10)) == Interval{2, 9});
  CHECK(exact_median_interval(ranks(15)) == Interval{4, 12});
  CHECK(exact_median_interval(ranks(20)) == Interval{6, 15});
  CHECK(exact_median_interval(ranks(30)) == Interval{10, 21});
  CHECK(exact_median_interval(ranks(50)) == Interval{18, 33});
  CHECK(exact_median_interval(ranks(5), 0.9) == Interval{1, 5});
}

TEST_CASE("The interval of a quantile has scipy's ranks, and needs samples enough", "[statistics][interval]") {
  CHECK(quantile_interval(ranks(100), 0.5) == Interval{40, 61});
  CHECK(quantile_interval(ranks(100), 0.9) == Interval{84, 96});
  CHECK(quantile_interval(ranks(500), 0.95) == Interval{465, 485});
  CHECK(quantile_interval(ranks(1000), 0.99) == Interval{983, 997});
  CHECK_FALSE(quantile_interval(ranks(71), 0.95));  // 0.95^71 = 2.6 %
  CHECK(quantile_interval(ranks(72), 0.95));
  CHECK_FALSE(quantile_interval(ranks(367), 0.99));
  CHECK(quantile_interval(ranks(368), 0.99));
  CHECK_FALSE(quantile_interval(ranks(3687), 0.999));
  CHECK(quantile_interval(ranks(3688), 0.999));
}

TEST_CASE("Epochs that are all alike have the binomial's interval, and constants themselves",
          "[statistics][interval]") {
  std::vector<float> values;  // 1 to 10 in each of 100 epochs: 1000 values of which each is there 100 times
  std::vector<std::size_t> ends;
  for (int epoch = 1; epoch <= 100; ++epoch) {
    for (int v = 1; v <= 10; ++v) values.push_back(static_cast<float>(v));
    ends.push_back(values.size());
  }
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  CHECK(quantile_interval(values, ends, sorted, 0.9) == quantile_interval(sorted, 0.9));
  CHECK(quantile_interval(values, ends, sorted, 0.9) == Interval{9, 10});  // ranks 882 and 919
  const std::vector<float> constant(1000, 3);
  CHECK(quantile_interval(constant, ends, std::vector<double>(1000, 3), 0.95) == Interval{3, 3});
}

TEST_CASE("Neighbours that resemble each other are told from those that alternate", "[statistics][interval]") {
  CHECK(lag1_about_median(runs(std::vector<int>(30, 1))) == 0);  // -29/30, clipped
  // 22 of 29 pairs of neighbours on one side of the median, 7 across it: (22 - 7) / 30 = 0.5
  CHECK(lag1_about_median(runs({4, 4, 4, 4, 4, 4, 3, 3})) == Approx(0.5));
  CHECK(lag1_about_median(ranks(30)) == Approx(0.9));  // 28 pairs to 1 is 27/30
  CHECK(lag1_about_median({}) == 0);
}

TEST_CASE("A cell is done after two narrow intervals in a row, not before the least epochs", "[statistics][stop]") {
  const StopRule rule{.rel = 0.01, .min_epochs = 10, .max_epochs = 400};
  StopState state;
  CHECK_FALSE(precise_enough(rule, state, 8, 0.001));
  CHECK_FALSE(precise_enough(rule, state, 9, 0.001));
  CHECK_FALSE(precise_enough(rule, state, 10, 0.01));
  CHECK_FALSE(precise_enough(rule, state, 11, 0.0101));
  CHECK_FALSE(precise_enough(rule, state, 12, 0.009));
  CHECK(precise_enough(rule, state, 13, 0.009));
}

TEST_CASE("A cell is noisy where the target is out of reach", "[statistics][stop]") {
  const StopRule rule{.rel = 0.01, .min_epochs = 10, .max_epochs = 400};
  CHECK(projected_epochs(30, 0.03, 0.01) == Approx(270));
  CHECK_FALSE(hopeless(rule, 30, 0.03));
  CHECK_FALSE(hopeless(rule, 30, 0.04));  // 480 epochs: above 400, but intervals from 30 are too wide
  CHECK(hopeless(rule, 30, 0.05));        // 750
  CHECK_FALSE(hopeless(rule, 29, 0.5));   // too early to tell
  CHECK(hopeless(rule, 30, std::numeric_limits<double>::infinity()));
  CHECK(hopeless(rule, 400, 0.0101));
  CHECK_FALSE(hopeless(rule, 400, 0.01));
}
