// Would catch: a drift that is not seen or seen in noise, two modes reported for a series that has one, and outliers
// dropped instead of counted.

#include "common/statistics/interval.h"
#include "synthetic_times.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Law = SyntheticTimes::Law;

namespace {

/// Of 300 series of 30 epochs, the share for which `flag` holds.
template <class Flag>
double share_flagged(Law law, Flag flag) {
  int flagged = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed)
    flagged += flag(SyntheticTimes(law, 8000 + seed).epochs(30, 3000)) ? 1 : 0;
  return flagged / 300.0;
}

}  // namespace

TEST_CASE("Two modes are found where they are, with their shares", "[statistics][series]") {
  const std::vector<double> apart{1.00, 1.01, 1.02, 1.01, 1.00, 1.03, 1.30, 1.31, 1.32, 1.29};
  const auto modes = two_modes(apart);
  REQUIRE(modes);
  CHECK(modes->low == Approx(1.01));
  CHECK(modes->high == Approx(1.305));
  CHECK(modes->share_low == Approx(0.6));
  // The outermost tenth on either side does not decide where the gap is.
  std::vector<double> with_strays = {0.1, 0.2,  1.0,  1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07,
                                     2.0, 2.01, 2.02, 2.03, 2.04, 2.05, 2.06, 2.07, 30,   40};
  const auto two = two_modes(with_strays);
  REQUIRE(two);
  CHECK(two->share_low == 0.5);
  // Beside groups as wide as half of the gap it is none: quartiles of 1, 1.1, ... 1.7 are 1.1 and 1.5, the bound 0.8.
  for (const double gap : {0.79, 0.81}) {
    std::vector<double> wide;
    for (int i = 0; i < 8; ++i) wide.push_back(1 + 0.1 * i);
    for (int i = 0; i < 8; ++i) wide.push_back(1.7 + gap + 0.01 * i);
    CHECK(two_modes(wide).has_value() == (gap > 0.8));
  }
}

TEST_CASE("One mode, few values, or a mode of few are not two modes", "[statistics][series]") {
  CHECK_FALSE(two_modes({}));
  CHECK_FALSE(two_modes(std::vector<double>(20, 1.0)));
  CHECK_FALSE(two_modes(std::vector<double>{1, 1.01, 1.02, 1.03, 2, 2.01, 2.02}));
  CHECK_FALSE(two_modes(std::vector<double>{1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 2, 2.01}));
  CHECK_FALSE(two_modes(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST_CASE("The bimodality flag is rare on one mode and usual on two", "[statistics][series]") {
  const auto bimodal = [](const std::vector<double>& epochs) { return two_modes(epochs).has_value(); };
  // The gap rule alone flags 0.2 of these.
  CHECK(share_flagged(Law::independent, bimodal) < 0.02);
  CHECK(share_flagged(Law::ar1, bimodal) < 0.02);
  CHECK(share_flagged(Law::regimes, bimodal) > 0.8);
}

TEST_CASE("Outliers are counted and weighed", "[statistics][series]") {
  // Quartiles (nearest rank of 12) 3 and 9: the fence is 27.
  const std::vector<double> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 27, 28, 100};
  const Outliers outliers = far_outliers(values);
  CHECK(outliers.count == 2);
  CHECK(outliers.share_of_sum == Approx(128.0 / 200));
  CHECK(outliers.largest == 100);
  CHECK(far_outliers(std::vector<double>{1, 2, 3, 4, 5}).count == 0);
  CHECK(far_outliers(std::vector<double>{1, 2, 3, 4, 5}).largest == 0);
  CHECK(far_outliers({}).count == 0);
}

TEST_CASE("The spread ratio is p90 over p10", "[statistics][series]") {
  CHECK(spread_ratio(std::vector<double>{10, 1, 2, 3, 4, 5, 6, 7, 8, 9}) == Approx(9));
  CHECK(spread_ratio(std::vector<double>{1, 100}) == 1);
  CHECK(spread_ratio({}) == 1);
}
