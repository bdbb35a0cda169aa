// Catches: an interval that many looks have made too narrow, a launch called odd by chance or not at all, a reason that
// no file tells, wrong data given a time.

#include "driver/repeat/repeated_runs.h"

#include "common/statistics/random.h"
#include "json_of.h"
#include "run_fixture.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace busbar;

namespace {

struct Launched {
  double median_us = 10;
  double spin_us = 300;
  std::string hosts = "\"node0\"";
  std::int64_t wrong = 0;
  bool stat = true;
};

std::vector<RunFile> runs(const std::vector<Launched>& launches) {
  std::vector<RunFile> result;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const Launched& l = launches[i];
    const FakeRun fake{
        .uuid = "uuid" + std::to_string(i),
        .hosts = l.hosts,
        .spin_us = l.spin_us,
        .stat = l.stat,
        .cells = {
            {.nbytes = 1024, .median_us = l.median_us, .epochs_us = {l.median_us}, .wrong = l.wrong, .stats = l.stat},
            {.nbytes = 4096, .median_us = 3 * l.median_us, .epochs_us = {3 * l.median_us}, .stats = l.stat}}};
    result.push_back(read_run(fake_run(fake), std::to_string(i + 1) + ".json"));
  }
  return result;
}

}  // namespace

TEST_CASE("Looks are at 6, 8 and 10 launches and at the last", "[repeat][unit]") {
  CHECK(looks_of(10, false) == std::vector<int>{10});
  CHECK(looks_of(10, true) == std::vector<int>{6, 8, 10});
  CHECK(looks_of(12, true) == std::vector<int>{6, 8, 10, 12});
  CHECK(looks_of(7, true) == std::vector<int>{6, 7});
  CHECK(looks_of(3, true) == std::vector<int>{3});
}

TEST_CASE("The mean of launches is geometric, with Student's interval of their logarithms", "[repeat][unit]") {
  // Logarithms ln 10 -+ ln 2: mean ln 10, sd sqrt(6/5) ln 2, standard error ln 2 / sqrt(5); t(0.975, 5) = 2.5706.
  const LaunchMean six = launch_mean({5, 20, 20, 5, 5, 20}, 0.05);
  CHECK(six.time_s == Approx(10));
  REQUIRE(six.interval_s);
  CHECK(six.interval_s->low == Approx(10 * std::pow(2, -2.5706 / std::sqrt(5.0))).epsilon(1e-4));
  CHECK(six.interval_s->high == Approx(10 * std::pow(2, 2.5706 / std::sqrt(5.0))).epsilon(1e-4));
  CHECK(launch_mean({7, 7, 7, 7, 7, 7}, 0.05).half_width() == 0);
}

TEST_CASE("Fewer than six launches give no interval, in repeat as in merge", "[repeat][unit]") {
  // Two of 1.76 us and 4 us were 0.00 to 98286188.85 us, +-2794179220.5 %.
  CHECK(launch_mean({5, 20}, 0.05).time_s == Approx(10));
  CHECK_FALSE(launch_mean({5, 20}, 0.05).interval_s);
  CHECK_FALSE(launch_mean({5, 20, 5, 20, 7}, 0.05).interval_s);
  CHECK(launch_mean({5}, 0.05).half_width() == std::numeric_limits<double>::infinity());
  const RepeatedRuns two = repeat_runs(runs({{.median_us = 5}, {.median_us = 20}}), 0.05);
  CHECK_THAT(repeated_text(two), Catch::Contains("      10.00           -           -      -  ") &&
                                     Catch::Contains("# 2 launches give no interval: 6 do\n"));
  CHECK(json_of(repeated_json(two))["cells"][0]["interval_s"].is_null());
  CHECK_FALSE(two.within(1000));
}

TEST_CASE("Stopping at a width leaves the interval its 95 %", "[repeat][unit]") {
  // Launches with a standard deviation of 5 %, the width that stops about half of the series early.
  Random random(20261123);
  const auto normal = [&] {
    const double u = (static_cast<double>(random.below(1 << 30)) + 0.5) / (1 << 30);
    const double v = static_cast<double>(random.below(1 << 30)) / (1 << 30);
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979 * v);
  };
  constexpr int kSeries = 4000;
  const std::vector<int> looks = looks_of(10, true);
  int covered = 0, early = 0;
  for (int i = 0; i < kSeries; ++i) {
    std::vector<double> times;
    for (const int look : looks) {
      while (static_cast<int>(times.size()) < look) times.push_back(std::exp(0.05 * normal()));
      const LaunchMean mean = launch_mean(times, level_of(looks.size()));
      if (look < 10 && mean.half_width() > 0.05) continue;
      covered += mean.interval_s->low <= 1 && 1 <= mean.interval_s->high ? 1 : 0;
      early += look < 10 ? 1 : 0;
      break;
    }
  }
  CHECK(covered >= 0.95 * kSeries);
  CHECK(covered <= 0.985 * kSeries);
  CHECK(early > kSeries / 4);
}

TEST_CASE("An odd launch is named, with what was recorded of it", "[repeat][unit]") {
  std::vector<Launched> launches(8);
  for (std::size_t i = 0; i < launches.size(); ++i) launches[i].median_us = 10 + 0.01 * static_cast<double>(i);
  launches[2] = {.median_us = 13, .spin_us = 390, .hosts = "\"node7\"", .wrong = 0, .stat = true};
  launches[5].median_us = 12;
  const RepeatedRuns repeated = repeat_runs(runs(launches), 0.05);
  REQUIRE(repeated.odd.size() == 2);
  CHECK(repeated.odd[0].launch == 2);
  // The others: 10, 10.01, 10.03, 10.04, 10.06, 10.07, 12.
  CHECK(repeated.odd[0].ratio == Approx(13 / 10.04).epsilon(0.002));
  CHECK(repeated.odd[0].reasons ==
        std::vector<std::string>{"its canary of computing took +30 %", "no other ran on node7"});
  CHECK(repeated.odd[1].launch == 5);
  CHECK(repeated.odd[1].reasons.empty());
  const std::string text = repeated_text(repeated);
  CHECK_THAT(text, Catch::Contains("launch 3 (2026-07-04 10:20:30) is odd: +29 % of time") &&
                       Catch::Contains("nothing recorded explains it"));
}

TEST_CASE("Healthy launches are hardly ever called odd", "[repeat][unit][slow]") {
  Random random(7);
  int with_odd = 0;
  constexpr int kSeries = 300;
  for (int i = 0; i < kSeries; ++i) {
    std::vector<Launched> launches(10);
    // The sum of twelve uniform numbers is nearly normal.
    for (Launched& l : launches) {
      double sum = -6;
      for (int j = 0; j < 12; ++j) sum += static_cast<double>(random.below(1 << 20)) / (1 << 20);
      l.median_us = 10 * std::exp(0.05 * sum);
    }
    with_odd += repeat_runs(runs(launches), 0.05).odd.empty() ? 0 : 1;
  }
  // At 1 %: more than 9 of 300 have a probability below 0.2 %.
  CHECK(with_odd <= 9);
}

TEST_CASE("Wrong data have no time, and runs without --stat count by their one time", "[repeat][unit]") {
  std::vector<Launched> launches(3);
  launches[1].wrong = 5;
  const RepeatedRuns wrong = repeat_runs(runs(launches), 0.05);
  CHECK_THAT(repeated_text(wrong), Catch::Contains("WRONG: 5 wrong elements in all launches"));
  const auto json = json_of(repeated_json(wrong));
  CHECK(json["document"] == "repeat");
  CHECK(json["cells"][0]["time_s"].is_null());
  CHECK(json["cells"][1]["time_s"] == Approx(30e-6));
  CHECK(json["launches"].size() == 3);
  const RepeatedRuns plain = repeat_runs(runs({{.stat = false}, {.stat = false}}), 0.05);
  CHECK(plain.means.front().time_s == Approx(10e-6));
}
