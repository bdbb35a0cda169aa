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

TEST_CASE("Hodges and Lehmann's estimate is the median of the Walsh averages", "[statistics][paired]") {
  // numpy: the middle of 120 averages.
  const std::vector<double> logs{0.10, -0.02, 0.05, 0.13, 0.07, 0.01, 0.22, 0.04,
                                 0.09, -0.05, 0.11, 0.06, 0.03, 0.18, 0.08};
  CHECK(std::exp(hodges_lehmann(logs)) == Approx(1.0725081812542165));
  CHECK(hodges_lehmann(std::vector<double>{3}) == 3);
  CHECK(hodges_lehmann(std::vector<double>{1, 2}) == 1.5);
}

TEST_CASE("Log ratios are of B over A", "[statistics][paired]") {
  const auto logs = log_ratios(std::vector<double>{1, 2}, std::vector<double>{2, 1});
  CHECK(logs[0] == Approx(0.6931471805599453));
  CHECK(logs[1] == Approx(-0.6931471805599453));
  CHECK_THROWS_AS(log_ratios(std::vector<double>{1}, std::vector<double>{}), Error);
  CHECK_THROWS_AS(log_ratios(std::vector<double>{1}, std::vector<double>{0}), Error);
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
  const auto ratio = round_ratio(logs);
  REQUIRE(ratio);
  // Python: exp(mean -+ 2.7764451 sd / sqrt(5)) of the logarithms.
  CHECK(ratio->value == Approx(1.2479961456));
  CHECK(ratio->interval.low == Approx(1.15355031));
  CHECK(ratio->interval.high == Approx(1.35017465));
  // Of "within 10 %": t = 4.4535 above the edge, with four degrees of freedom.
  CHECK(round_p(logs, 0.1) == Approx(2 * student_t_upper(4.45350934, 4)));
  CHECK(round_p(logs, 0.5) == 1);
  CHECK_FALSE(round_ratio(std::vector<double>{0.1, 0.2, 0.3}));
  CHECK(round_p(std::vector<double>{0.1, 0.2, 0.3}) == 1);
  CHECK(round_p(std::vector<double>(6, 0.0)) == 1);
}

TEST_CASE("Pairs of launches find through a drift what groups of them do not", "[statistics][paired]") {
  // Unpaired, 71 % were found at 10 % and 16 % at 6 %.
  CHECK(launch_pairs(1.10, 300).slower >= 270);
  CHECK(launch_pairs(1.06, 300).slower >= 105);
  CHECK(launch_pairs(1, 600).excludes_one <= 30 + 19);  // 5 % and 3.5 standard deviations
}

TEST_CASE("Slow variants are dropped, the best and the baseline are kept", "[statistics][paired]") {
  // Five variants in 8 rounds of noise of 0.5 %: baseline 1.5, then 1, 1.01, 1.4, 1.03; every round its own level.
  const std::vector<double> levels{1.5, 1, 1.01, 1.4, 1.03};
  SyntheticTimes noise(SyntheticTimes::Law::independent, 5);
  std::vector<std::vector<double>> times(5);
  for (int round = 0; round < 8; ++round) {
    const double common = round < 4 ? 1 : 3;
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
  std::vector<std::vector<double>> times(2, std::vector<double>(8, 1.0));
  for (std::size_t round = 0; round < 8; ++round) times[1][round] = round % 4 == 0 ? 0.7 : 1.5;
  REQUIRE(round_ratio(log_ratios(times[0], times[1]))->value > 1.1);
  CHECK(survivors(times, std::vector<std::size_t>{0, 1}, 0.02) == std::vector<std::size_t>{0, 1});
}
