// Would catch: noise that a few dips inflate, a threshold that gets stricter with noise, a reference that slow units
// drag down, a healthy unit that is suspect because of its partner.

#include "driver/locate/search_record.h"
#include "simulated_cluster.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

using namespace busbar;
using State = Screen::State;

namespace {

std::vector<std::vector<double>> repeats_of(SimulatedCluster& cluster, int npairs, int times) {
  std::vector<std::vector<double>> repeats(static_cast<std::size_t>(npairs));
  for (auto& pair : repeats) {
    for (int i = 0; i < times; ++i) {
      const bool dip = cluster.dip_share > 0 && cluster.random.unit() < cluster.dip_share;
      pair.push_back((1 + cluster.noise * cluster.normal()) * (dip ? 0.6 : 1));
    }
  }
  return repeats;
}

}  // namespace

TEST_CASE("The noise is that of what is measured again, whatever pairs differ by", "[locate]") {
  // Two pairs at 1 and 3, each +-1 %: differences of logarithms 0.02 each, over 0.954.
  const std::vector<std::vector<double>> repeats = {{1.0, std::exp(0.02)}, {3.0, 3.0 * std::exp(-0.02)}};
  CHECK(noise_of_repeats(repeats) == Approx(0.02 / 0.9538726));
  CHECK(std::isnan(noise_of_repeats(std::vector<std::vector<double>>{{1.0}, {2.0}})));
  CHECK(std::isnan(noise_of_repeats({})));
  CHECK(noise_of_repeats(std::vector<std::vector<double>>{{1.0, 0.0, 1.0}}) == 0);  // 0: not measured
}

TEST_CASE("Dips and slow rounds do not pass for noise", "[locate]") {
  SimulatedCluster cluster(2, 5);
  cluster.dip_share = 0.05;
  CHECK(noise_of_repeats(repeats_of(cluster, 2000, 2)) == Approx(0.03).epsilon(0.2));
  CHECK(noise_of_repeats(repeats_of(cluster, 1000, 5)) == Approx(0.03).epsilon(0.2));
  auto repeats = repeats_of(cluster, 500, 2);
  for (auto& pair : repeats) pair[1] *= 0.7;  // the whole cluster, for a minute
  CHECK(noise_of_repeats(repeats) == Approx(0.03).epsilon(0.25));
}

TEST_CASE("A noisier machine gets a lower threshold, never a stricter one", "[locate]") {
  CHECK(slow_threshold(0, 0.9) == 0.9);
  CHECK(slow_threshold(0.02, 0.9) == 0.9);
  CHECK(slow_threshold(0.05, 0.9) == Approx(0.8));
  CHECK(slow_threshold(0.25, 0.9) == Approx(0.2865).epsilon(0.001));  // exp(-1.25)
  CHECK(slow_threshold(std::numeric_limits<double>::quiet_NaN(), 0.9) == 0.9);
  CHECK(calibration_repeats(1) == 4);
  CHECK(calibration_repeats(4) == 4);
  CHECK(calibration_repeats(8) == 2);
  CHECK(calibration_repeats(2048) == 1);
}

TEST_CASE("Slow measurements have a mean and, from two on, a standard deviation", "[locate]") {
  SlowCount count;
  CHECK(count.deviation() == 0);
  count.add(1.1, false);
  count.add(0.5, true);
  CHECK(count.mean() == Approx(0.5));
  CHECK(count.deviation() == 0);
  count.add(0.7, true);
  CHECK((count.measured == 3 && count.slow == 2));
  CHECK(count.mean() == Approx(0.6));
  CHECK(count.deviation() == Approx(std::sqrt(0.02)));
}

TEST_CASE("A unit with one good pair is good, one without is suspect", "[locate]") {
  // 0 is slow with all; 1 met 0 and is good with 2; the pair 2 - 3 is slow although both are good with others.
  const std::vector<MeasuredPair> pairs = {{0, 1, 50}, {0, 2, 55},  {1, 2, 101}, {2, 3, 60},
                                           {1, 3, 99}, {4, 5, 100}, {4, 1, 100}, {5, 3, 100}};
  const Screen screen = screen_pairs(pairs, 7, 0.9, false);
  CHECK(screen.reference == 100);
  CHECK(screen.state == std::vector<State>{State::suspect, State::good, State::good, State::good, State::good,
                                           State::good, State::unknown});
  CHECK(screen.slow_pairs == std::vector<int>{3});
}

TEST_CASE("Of few units the best pairs are normal: most may be slow because of one", "[locate]") {
  const std::vector<MeasuredPair> pairs = {{0, 1, 50}, {0, 2, 50}, {1, 2, 100}};
  CHECK(screen_pairs(pairs, 3, 0.9, true).state == std::vector<State>{State::suspect, State::good, State::good});
}

TEST_CASE("Without any measurement nothing is known", "[locate]") {
  CHECK(screen_pairs({}, 4, 0.9, false).state == std::vector<State>(4, State::unknown));
  CHECK(score_pairs({}, false, 4, 0.9, true).ends.empty());
}
