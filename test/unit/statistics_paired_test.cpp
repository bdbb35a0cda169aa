// Would catch: rank tests that miscount ties, zeros or tails, a ratio turned upside down, a verdict from an interval
// that touches the band, and an elimination that drops the baseline or the best.

#include "common/base/error.h"
#include "common/statistics/distributions.h"
#include "common/statistics/paired.h"
#include "statistics_rates.h"
#include "synthetic_times.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace busbar;
using namespace busbar::rates;

TEST_CASE("A paired ratio is exp of Hodges and Lehmann's estimate with the signed-rank interval",
          "[statistics][paired]") {
  // numpy: 120 Walsh averages in order, the 20th from each end; exact confidence 1 - 0.0181 against alpha 0.0221.
  const std::vector<double> logs{0.10, -0.02, 0.05, 0.13, 0.07, 0.01, 0.22, 0.04,
                                 0.09, -0.05, 0.11, 0.06, 0.03, 0.18, 0.08};
  const auto ratio = paired_ratio(logs);
  REQUIRE(ratio);
  CHECK(ratio->value == Approx(1.0725081812542165));
  CHECK(ratio->interval.low == Approx(1.0253151205244289));
  CHECK(ratio->interval.high == Approx(1.1331484530668263));
}

TEST_CASE("A paired ratio needs 7 rounds at the looks' z", "[statistics][paired]") {
  CHECK_FALSE(paired_ratio({}));
  CHECK_FALSE(paired_ratio(std::vector<double>(6, 0.1)));
  CHECK(paired_ratio(std::vector<double>(7, 0.0)) == Ratio{});
}

TEST_CASE("Log ratios are of B over A", "[statistics][paired]") {
  const auto logs = log_ratios(std::vector<double>{1, 2}, std::vector<double>{2, 1});
  CHECK(logs[0] == Approx(0.6931471805599453));
  CHECK(logs[1] == Approx(-0.6931471805599453));
  CHECK_THROWS_AS(log_ratios(std::vector<double>{1}, std::vector<double>{}), Error);
  CHECK_THROWS_AS(log_ratios(std::vector<double>{1}, std::vector<double>{0}), Error);
}

TEST_CASE("Several comparisons at a time make the looks' z stricter", "[statistics][paired]") {
  CHECK(look_z(0) == kLookZ);
  CHECK(look_z(1) == kLookZ);
  CHECK(look_z(9) == Approx(3.0290474629463007).epsilon(1e-10));  // scipy
}

TEST_CASE("The signed-rank test is scipy's", "[statistics][paired]") {
  const std::vector<double> untied{6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75};
  CHECK(signed_rank_p(untied) == Approx(0.041259765625).epsilon(1e-12));
  const std::vector<double> tied{1.2, -0.5, 0.5, 2.2, 0, 3.1, -1.2, 0.7, 2.9, 1.9, 4.4, -0.1, 1.1, 0.9};
  CHECK(signed_rank_p(tied) == Approx(0.017427406880717998).epsilon(1e-10));
  const std::vector<double> many{0.646, 1.122, 0.63,   -1.003, 1.205,  0.746,  -0.237, 0.881,  0.665,  0.594,
                                 0.328, 0.847, -0.436, 0.137,  -0.182, 0.899,  0.34,   0.008,  -0.482, 0.043,
                                 0.308, 0.024, 1.594,  1.307,  -2.411, -1.589, 0.125,  -0.122, 0.514,  0.517};
  CHECK(signed_rank_p(many) == Approx(0.02923938176410581).epsilon(1e-10));
  CHECK(signed_rank_p({}) == 1);
  CHECK(signed_rank_p(std::vector<double>{0, 0, 0}) == 1);
  CHECK(signed_rank_p(std::vector<double>{1, 2, 3, 4, 5}) == Approx(2.0 / 32));
}

TEST_CASE("The Mann-Whitney test is scipy's", "[statistics][paired]") {
  CHECK(mann_whitney_p(std::vector<double>{19, 22, 16, 29, 24}, std::vector<double>{20, 11, 17, 12}) ==
        Approx(1.0 / 9).epsilon(1e-12));
  CHECK(mann_whitney_p(std::vector<double>{1, 2, 2, 3, 5, 7}, std::vector<double>{2, 4, 5, 6, 8, 8, 9}) ==
        Approx(0.08388222384935279).epsilon(1e-10));
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 1; i <= 25; ++i) a.push_back(i);
  for (int i = 0; i < 30; ++i) b.push_back(i + 7.5);
  CHECK(mann_whitney_p(a, b) == Approx(0.0005821919179632507).epsilon(1e-10));
  CHECK(mann_whitney_p(a, {}) == 1);
  CHECK(mann_whitney_p(std::vector<double>(5, 1.0), std::vector<double>(5, 1.0)) == 1);
}

TEST_CASE("Holm's adjustment steps down and keeps the order given", "[statistics][paired]") {
  const auto adjusted = holm(std::vector<double>{0.01, 0.04, 0.03, 0.005});
  // By hand: 0.005 x 4, 0.01 x 3, 0.03 x 2; 0.04 x 1 is raised to 0.06.
  CHECK(adjusted[0] == Approx(0.03));
  CHECK(adjusted[1] == Approx(0.06));
  CHECK(adjusted[2] == Approx(0.06));
  CHECK(adjusted[3] == Approx(0.02));
  CHECK(holm(std::vector<double>{0.6, 0.7}) == std::vector<double>{1, 1});
  CHECK(holm({}).empty());
}

TEST_CASE("The probability of being faster counts ties as half", "[statistics][paired]") {
  // Of the pairs (a, b): b below a for a = 1 once, for 2 once and a tie, for 3 twice.
  CHECK(probability_faster(std::vector<double>{1, 2, 3}, std::vector<double>{0, 2, 5}) == Approx(4.5 / 9));
  CHECK(probability_faster(std::vector<double>{2, 2}, std::vector<double>{1, 1}) == 1);
  CHECK(probability_faster(std::vector<double>{1, 1}, std::vector<double>{2, 2}) == 0);
  CHECK(probability_faster({}, std::vector<double>{1}) == 0.5);
}

TEST_CASE("A verdict needs the whole interval on one side of the band's edge", "[statistics][paired]") {
  CHECK(judge({0.90, 0.97}, 0.02) == Difference::faster);
  CHECK(judge({0.90, 0.98}, 0.02) == Difference::undecided);
  CHECK(judge({1.03, 1.10}, 0.02) == Difference::slower);
  CHECK(judge({1.02, 1.10}, 0.02) == Difference::undecided);
  CHECK(judge({0.985, 1.015}, 0.02) == Difference::equivalent);
  CHECK(judge({0.97, 1.01}, 0.02) == Difference::undecided);
  CHECK(judge({0.90, 1.10}, 0.02) == Difference::undecided);
}

TEST_CASE("Launches that alternate are compared in pairs, by Student's t", "[statistics][paired]") {
  const std::vector<double> a{10, 20, 10, 40, 8};
  const std::vector<double> b{13, 24, 13.5, 46, 10};  // ratios 1.3, 1.2, 1.35, 1.15, 1.25 whatever the level
  const std::vector<double> logs = log_ratios(a, b);
  const auto ratio = launches_ratio(logs);
  REQUIRE(ratio);
  // Python: exp(mean -+ 2.7764451 sd / sqrt(5)) of the logarithms.
  CHECK(ratio->value == Approx(1.2479961456));
  CHECK(ratio->interval.low == Approx(1.15355031));
  CHECK(ratio->interval.high == Approx(1.35017465));
  // Of "within 10 %": t = 4.4535 above the edge, with four degrees of freedom.
  CHECK(launches_p(logs, 0.1) == Approx(2 * student_t_upper(4.45350934, 4)));
  CHECK(launches_p(logs, 0.5) == 1);
  CHECK_FALSE(launches_ratio(std::vector<double>{0.1, 0.2, 0.3}));
  CHECK(launches_p(std::vector<double>{0.1, 0.2, 0.3}) == 1);
  CHECK(launches_p(std::vector<double>(6, 0.0)) == 1);
}

TEST_CASE("Pairs of launches find through a drift what groups of them do not", "[statistics][paired]") {
  // Unpaired, 71 % were found at 10 % and 16 % at 6 %.
  CHECK(launch_pairs(1.10, 300).slower >= 270);
  CHECK(launch_pairs(1.06, 300).slower >= 105);
  CHECK(launch_pairs(1, 600).excludes_one <= 30 + 19);  // 5 % and 3.5 standard deviations
}

TEST_CASE("A p against the band is as small as the ratio is beyond it", "[statistics][paired]") {
  // Eight ratios that all lie between 2 and 5 %: beyond no difference and 2 % alike, within 5 %.
  const std::vector<double> logs{0.022, 0.024, 0.026, 0.028, 0.03, 0.032, 0.034, 0.036};
  CHECK(signed_rank_band_p(logs, 0) == Approx(2.0 / 256));
  CHECK(signed_rank_band_p(logs, 0.02) == Approx(2.0 / 256));
  CHECK(signed_rank_band_p(logs, 0.05) == 1);
  std::vector<double> faster = logs;
  for (double& value : faster) value = -value;
  CHECK(signed_rank_band_p(faster, 0.02) == Approx(2.0 / 256));
  // At the edge: as many on either side.
  CHECK(signed_rank_band_p(logs, std::expm1(0.0285)) > 0.8);
}

TEST_CASE("Slow variants are dropped, the best and the baseline are kept", "[statistics][paired]") {
  // Five variants in 15 rounds of noise of 0.5 %: baseline 1.5, then 1, 1.01, 1.4, 1.03; every round its own level.
  const std::vector<double> levels{1.5, 1, 1.01, 1.4, 1.03};
  SyntheticTimes noise(SyntheticTimes::Law::independent, 5);
  std::vector<std::vector<double>> times(5);
  for (int round = 0; round < 15; ++round) {
    const double common = round < 7 ? 1 : 3;
    for (std::size_t v = 0; v < 5; ++v) times[v].push_back(common * levels[v] * std::pow(noise.next(), 0.05));
  }
  const std::vector<std::size_t> all{0, 1, 2, 3, 4};
  CHECK(survivors(times, all, 0.05) == std::vector<std::size_t>{0, 1, 2, 4});
  CHECK(survivors(times, all, 0.02) == std::vector<std::size_t>{0, 1, 2});
  CHECK(survivors(times, all, 0.0) == std::vector<std::size_t>{0, 1});
  times[3].clear();  // one dropped earlier has fewer rounds and is not looked at
  CHECK(survivors(times, std::vector<std::size_t>{0, 1, 2, 4}, 0.0) == std::vector<std::size_t>{0, 1});
  CHECK(survivors(times, std::vector<std::size_t>{0}, 0.0) == std::vector<std::size_t>{0});
}

TEST_CASE("A variant that only looks slow stays in the race", "[statistics][paired]") {
  std::vector<std::vector<double>> times(2, std::vector<double>(15, 1.0));
  for (std::size_t round = 0; round < 15; ++round) times[1][round] = round % 5 == 0 ? 0.5 : 1.5;
  REQUIRE(paired_ratio(log_ratios(times[0], times[1]))->value > 1.1);
  CHECK(survivors(times, std::vector<std::size_t>{0, 1}, 0.02) == std::vector<std::size_t>{0, 1});
}
