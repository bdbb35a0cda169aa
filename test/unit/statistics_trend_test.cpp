// The bugs these would catch: a formula typed wrongly, and trends and change points found in noise.

#include "common/statistics/distributions.h"
#include "common/statistics/random.h"
#include "common/statistics/trend.h"
#include "statistics_rates.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <vector>

using namespace busbar;
using namespace busbar::rates;

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

TEST_CASE("A change of level is found where it is", "[statistics][unit]") {
  const std::vector<double> series{1, 1.1, 0.9, 1.05, 0.95, 1, 2, 2.1, 1.9, 2.05, 1.95, 2};
  const auto change = level_change(series, 0.01);
  REQUIRE(change);
  CHECK(change->first_after == 6);
  CHECK(change->before == 1);
  CHECK(change->after == 2);
  CHECK(change->p <= 0.01);
  CHECK_FALSE(level_change(std::vector<double>{1, 1, 1, 2, 2, 2}, 1));
  CHECK_FALSE(level_change(std::vector<double>(20, 1.0), 0.5));
}

namespace {

/// A fixed series: a wave without a period, a slope, and a step.
std::vector<double> wave(int n, double slope, int at = 0, double step = 0) {
  std::vector<double> series;
  for (int i = 0; i < n; ++i) series.push_back(0.02 * std::sin(i * i) + slope * i + (at > 0 && i >= at ? step : 0));
  return series;
}

}  // namespace

TEST_CASE("Hints about runs are those of the model by dense matrices", "[statistics][unit]") {
  // Generalised least squares with the inverse of AR(1)'s covariance matrix (NumPy), at the likeliest of 20 correlation
  // times with and without the change; p by the table, linear in ln(n).
  struct Trend {
    int n;
    double slope, p;
  };
  for (const auto& [n, slope, p] :
       {Trend{8, 0.004, 0.9604324},       Trend{9, 0.01, 0.071774394},      Trend{12, 0.003, 0.15942706},
        Trend{17, 0.002, 0.23274511},     Trend{30, 0.001, 0.034618591},    Trend{39, 0.0007, 0.0055831122},
        Trend{70, 0.0003, 0.00050396357}, Trend{120, 0.0001, 0.0049292483}, Trend{8, 0.006187, 0.38654544},
        Trend{8, 0.013258, 0.038576641},  Trend{10, 0.004427, 0.24403635},  Trend{10, 0.009487, 0.036614565},
        Trend{14, 0.002291, 0.26079711},  Trend{14, 0.0042, 0.032035061},   Trend{14, 0.005727, 0.012995259},
        Trend{20, 0.001118, 0.34135153},  Trend{20, 0.002012, 0.028264096}, Trend{20, 0.00313, 0.0028151134},
        Trend{40, 0.000237, 0.30580973},  Trend{40, 0.000474, 0.032351748}, Trend{40, 0.000632, 0.0047938047},
        Trend{100, 2e-05, 0.13954605},    Trend{100, 6e-05, 0.026985446},   Trend{100, 0.0001, 0.0032035885}}) {
    CAPTURE(n);
    CHECK(trend_p(wave(n, slope)) == Approx(p).epsilon(1e-5));
  }
  struct Step {
    int n, at;
    double step;
    std::size_t found;
    double before, after, p;
  };
  for (const auto& [n, at, step, found, before, after, p] :
       {Step{8, 4, 0.03, 4, 0.0041211849, 0.01758344, 0.40484554},
        Step{9, 5, 0.06, 5, 0, 0.049138956, 0.045107065},
        Step{13, 9, 0.03, 8, -0.0042025507, 0.019872687, 0.15359777},
        Step{19, 7, 0.025, 8, -0.0013235175, 0.015179568, 0.10883581},
        Step{33, 20, 0.02, 21, -0.0057580663, 0.019914034, 0.016503253},
        Step{70, 30, 0.014, 30, -0.0069196854, 0.014091867, 0.0010479759},
        Step{8, 4, 0.036, 4, 0.0041211849, 0.02358344, 0.26520748},
        Step{8, 4, 0.072, 4, 0.0041211849, 0.05958344, 0.026643672},
        Step{8, 4, 0.096, 4, 0.0041211849, 0.08358344, 0.0064222072},
        Step{10, 5, 0.024, 8, 0.0045446849, 0.02690138, 0.34798505},
        Step{10, 5, 0.06, 5, 0, 0.04740224, 0.02726047},
        Step{10, 5, 0.096, 5, 0, 0.08340224, 0.0028156041},
        Step{14, 7, 0.012, 8, -0.0042025507, 0.0020261276, 0.42417621},
        Step{14, 7, 0.048, 7, -0.002647035, 0.037872687, 0.025096253},
        Step{14, 7, 0.072, 7, -0.002647035, 0.061872687, 0.0033338148},
        Step{20, 10, 0.012, 8, -0.0042025507, 0.0030491319, 0.44575449},
        Step{20, 10, 0.036, 10, -0.0042025507, 0.027049132, 0.012504548},
        Step{20, 10, 0.048, 10, -0.0042025507, 0.039049132, 0.0026698777},
        Step{40, 20, 0.012, 21, -0.0057580663, 0.0098820482, 0.081512657},
        Step{40, 20, 0.024, 21, -0.0057580663, 0.021882048, 0.00071617471},
        Step{100, 50, 0.012, 49, -0.004907962, 0.018592418, 6.4075229e-05}}) {
    CAPTURE(n);
    const auto change = level_change(wave(n, 0, at, step), 1);
    REQUIRE(change);
    CHECK(change->first_after == found);
    CHECK(change->before == Approx(before).epsilon(1e-6).margin(1e-9));
    CHECK(change->after == Approx(after).epsilon(1e-6));
    CHECK(change->p == Approx(p).epsilon(1e-5));
    CHECK(level_change(wave(n, 0, at, step), change->p));
    CHECK_FALSE(level_change(wave(n, 0, at, step), 0.999 * change->p));
  }
  struct Last {
    int n;
    double step, p;
  };
  for (const auto& [n, step, p] :
       {Last{6, 0.1, 0.018012209},    Last{7, 0.07, 0.028452922},   Last{9, 0.06, 0.0039472229},
        Last{12, 0.05, 0.0019062911}, Last{17, 0.045, 0.11628317},  Last{30, 0.05, 0.023265203},
        Last{70, 0.04, 0.19741653},   Last{120, 0.035, 0.39384108}, Last{6, 0.03, 0.26275724},
        Last{6, 0.08, 0.029568969},   Last{6, 0.13, 0.01014931},    Last{7, 0.04, 0.28433389},
        Last{7, 0.07, 0.028452922},   Last{7, 0.13, 0.0032926126},  Last{8, 0.04, 0.24045778},
        Last{8, 0.07, 0.025754788},   Last{8, 0.12, 0.0033188055},  Last{10, 0.03, 0.40212457},
        Last{10, 0.07, 0.022951618},  Last{10, 0.11, 0.0033666546}, Last{14, 0.03, 0.28893589},
        Last{14, 0.05, 0.030726112},  Last{14, 0.07, 0.0040242789}, Last{20, 0.01, 0.28777015},
        Last{20, 0.03, 0.020942093},  Last{20, 0.04, 0.0055551973}, Last{40, 0.01, 0.19515706},
        Last{40, 0.02, 0.046211142},  Last{40, 0.04, 0.0017251896}, Last{100, 0.03, 0.39443764},
        Last{100, 0.05, 0.019042581}, Last{100, 0.06, 0.0028147388}}) {
    CAPTURE(n);
    CHECK(last_value_p(wave(n, 0, n - 1, step)) == Approx(p).epsilon(1e-5));
  }
}

TEST_CASE("One run in trouble is neither a trend nor hides one", "[statistics][unit]") {
  std::vector<double> rising{0, 0.011, 0.019, 0.03, 0.041, 0.05, 0.059, 0.07, 0.081, 0.09, 0.1, 0.109};
  CHECK(trend_p(rising) < 0.01);
  rising[3] = 1.6;
  CHECK(trend_p(rising) < 0.01);
  std::vector<double> level{0, 0.01, -0.01, 0, 0.01, -0.01, 0, 0.01, -0.01, 0};
  level[7] = 1.6;
  CHECK(trend_p(level) > 0.1);
  CHECK_FALSE(level_change(level, 0.1));
  level.push_back(0.005);
  CHECK(last_value_p(level) > 0.1);
  CHECK(trend_p(std::vector<double>{1, 2, 3, 4, 5, 6, 7}) == 1);  // too few
  CHECK(last_value_p(std::vector<double>{1, 1, 1, 1, 9}) == 1);
  CHECK(last_value_p(std::vector<double>(9, 1.0)) == 1);
}

TEST_CASE("Hints about runs are false in 1 % whatever correlation time the runs have", "[statistics][unit][slow]") {
  // 3.5 MAD flagged 12 % at five runs; Mann and Kendall 47 to 53 % and Pettitt 55 to 94 % at a correlation of 0.9. The
  // bound: 1 % of 1500 and 3.5 standard deviations of such a count.
  constexpr int kSeries = 1500;
  const int bound = static_cast<int>(0.01 * kSeries + 3.5 * std::sqrt(0.01 * kSeries));
  for (const double phi : {0.0, 0.5, 0.9}) {
    for (const int runs : {6, 8, 20, 40}) {
      INFO("phi " << phi << ", runs " << runs);
      const Hints found = hints(runs, phi, 1, 0, kSeries);
      CHECK(found.last <= bound);
      CHECK(found.trend <= bound);
      CHECK(found.level <= bound);
    }
  }
}

TEST_CASE("A drift of 10 % is found over 20 runs at 1 %, and over 40 at 2 %", "[statistics][unit]") {
  CHECK(hints(20, 0, 0.01, 0.10, 400).trend >= 320);
  CHECK(hints(40, 0, 0.02, 0.10, 400).trend >= 320);
}

TEST_CASE("A burst lasts a span from its first value, however close the next", "[statistics][unit]") {
  CHECK(bursts(std::vector<double>{0, 5, 10, 86400, 86405, 200000}, 3600) ==
        std::vector<std::size_t>{0, 0, 0, 1, 1, 2});
  CHECK(bursts(std::vector<double>{0, 1800, 3600, 5400, 7200}, 3600) == std::vector<std::size_t>{0, 0, 1, 1, 2});
  CHECK(bursts(std::vector<double>{10, 5, 20}, 3600) == std::vector<std::size_t>{0, 0, 0});  // a clock set back
  CHECK(bursts({}, 3600).empty());
}

TEST_CASE("A value is as far as robust deviations of the earlier ones", "[statistics][unit]") {
  const std::vector<double> earlier{1, 2, 3, 4, 5};  // median 3, MAD 1
  CHECK(*robust_distance(earlier, 3 + 2 * 1.4826, 0) == Approx(2));
  CHECK(*robust_distance(earlier, 1, 4) == Approx(-0.5));
  CHECK_FALSE(robust_distance(std::vector<double>{1, 2, 3, 4}, 9, 0));
  CHECK(*robust_distance(std::vector<double>(5, 1.0), 1, 0) == 0);
  CHECK(std::isinf(*robust_distance(std::vector<double>(5, 1.0), 2, 0)));
}
