// The bugs these would catch: a formula typed wrongly, and change points found in noise.

#include "common/statistics/distributions.h"
#include "common/statistics/random.h"
#include "common/statistics/trend.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <vector>

using namespace busbar;

TEST_CASE("Student's t has the quantiles of the printed tables", "[statistics][unit]") {
  CHECK(student_t_quantile(0.975, 1) == Approx(12.7062).epsilon(1e-5));
  CHECK(student_t_quantile(0.975, 2) == Approx(4.30265).epsilon(1e-5));
  CHECK(student_t_quantile(0.975, 3) == Approx(3.18245).epsilon(1e-5));
  CHECK(student_t_quantile(0.995, 5) == Approx(4.03214).epsilon(1e-5));
  CHECK(student_t_quantile(0.975, 30) == Approx(2.04227).epsilon(1e-5));
  CHECK(student_t_quantile(0.95, 1000) == Approx(1.64638).epsilon(1e-4));
  CHECK(student_t_upper(0, 4) == Approx(0.5));
  CHECK(student_t_upper(-2, 4) == Approx(1 - student_t_upper(2, 4)));
  CHECK(student_t_upper(1, 1) == Approx(0.25));  // 45 degrees of the Cauchy distribution
}

TEST_CASE("The slope of Theil and Sen is the median of all slopes", "[statistics][unit]") {
  // Slopes: 1 2 3, 3 4, 5.
  CHECK(theil_sen_slope(std::vector<double>{0, 1, 2, 3}, std::vector<double>{0, 1, 4, 9}) == 3);
  CHECK(theil_sen_slope(std::vector<double>{0, 1, 2, 3, 4}, std::vector<double>{0, 2, 4, 6, 1000}) == 2);
  CHECK(theil_sen_slope(std::vector<double>{1, 1}, std::vector<double>{0, 5}) == 0);
  CHECK(theil_sen_slope({}, {}) == 0);
}

TEST_CASE("A change of level is found where it is, and p is Pettitt's", "[statistics][unit]") {
  const std::vector<double> series{1, 1.1, 0.9, 1.05, 0.95, 1, 2, 2.1, 1.9, 2.05, 1.95, 2};
  const auto change = level_change(series, 0.05);
  REQUIRE(change);
  CHECK(change->first_after == 6);
  CHECK(change->before == 1);
  CHECK(change->after == 2);
  // Every one of 6 x 6 pairs points the same way: K = 36.
  CHECK(change->p == Approx(2 * std::exp(-6.0 * 36 * 36 / (12 * 12 * 12 + 12 * 12))));
  CHECK_FALSE(level_change(std::vector<double>{1, 1, 1, 2, 2, 2}, 1));
  CHECK_FALSE(level_change(std::vector<double>(20, 1.0), 0.5));
}

TEST_CASE("Independent values show a change of level no more often than alpha", "[statistics][unit]") {
  Random random(5);
  int found = 0;
  constexpr int kSeries = 2000;
  for (int i = 0; i < kSeries; ++i) {
    std::vector<double> series(30);
    for (double& value : series) value = random.unit();
    found += level_change(series, 0.05).has_value() ? 1 : 0;
  }
  CHECK(found <= kSeries * 0.05);
  CHECK(found >= kSeries * 0.005);
}

TEST_CASE("A value is as far as robust deviations of the earlier ones", "[statistics][unit]") {
  const std::vector<double> earlier{1, 2, 3, 4, 5};  // median 3, MAD 1
  CHECK(*robust_distance(earlier, 3 + 2 * 1.4826, 0) == Approx(2));
  CHECK(*robust_distance(earlier, 1, 4) == Approx(-0.5));
  CHECK_FALSE(robust_distance(std::vector<double>{1, 2, 3, 4}, 9, 0));
  CHECK(*robust_distance(std::vector<double>(5, 1.0), 1, 0) == 0);
  CHECK(std::isinf(*robust_distance(std::vector<double>(5, 1.0), 2, 0)));
}
