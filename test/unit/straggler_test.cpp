// The bugs these would catch: a healthy rank is blamed because one of two ranks is always last more often than not, and
// the late rank is missed, or its waiting peers are blamed instead.

#include "common/output/stat_notes.h"

#include <catch2/catch.hpp>

#include <vector>

using namespace busbar;

namespace {

CellStats cell_of(const std::vector<double>& last_shares, const std::vector<double>& late_us, std::uint64_t samples) {
  CellStats cell;
  cell.median_s = 50e-6;
  cell.skew_median_s = 1e-6;
  cell.samples = samples;
  for (std::size_t i = 0; i < last_shares.size(); ++i) {
    cell.ranks.push_back({.rank = static_cast<int>(i),
                          .host = "node" + std::to_string(i / 2),
                          .own_median_s = 50e-6,
                          .late_median_s = late_us[i] * 1e-6,
                          .late_p99_s = 2 * late_us[i] * 1e-6,
                          .last_share = last_shares[i]});
  }
  return cell;
}

}  // namespace

TEST_CASE("One rank that is late nearly always is named, with its host and lateness", "[straggler][unit]") {
  const auto straggler = find_straggler(cell_of({0.02, 0.02, 0.02, 0.94}, {0, 0.5, 0.5, 120}, 1000));
  REQUIRE(straggler);
  CHECK(straggler->rank == 3);
  CHECK(straggler->host == "node1");
  CHECK(straggler->last_share == 0.94);
  CHECK(straggler->late_s == Approx(120e-6));
}

TEST_CASE("Who is last by chance is not a straggler", "[straggler][unit]") {
  // Of 2 ranks one is last in half of the samples at least: only 75 % says more than "more often than the other".
  CHECK_FALSE(find_straggler(cell_of({0.3, 0.7}, {0, 20}, 100000)));
  CHECK_FALSE(find_straggler(cell_of({0.25, 0.75}, {0, 20}, 100000)));
  CHECK(find_straggler(cell_of({0.24, 0.76}, {0, 20}, 100000)));
  // Of 4: 62.5 %.
  CHECK_FALSE(find_straggler(cell_of({0.62, 0.13, 0.13, 0.12}, {20, 0, 0, 0}, 100000)));
  CHECK(find_straggler(cell_of({0.63, 0.13, 0.12, 0.12}, {20, 0, 0, 0}, 100000)));
}

TEST_CASE("Few samples must be unanimous", "[straggler][unit]") {
  // 1/2 + 4 sqrt(1/4 / 20) = 0.947
  CHECK_FALSE(find_straggler(cell_of({0.06, 0.94}, {0, 20}, 20)));
  CHECK(find_straggler(cell_of({0.05, 0.95}, {0, 20}, 20)));
  CHECK_FALSE(find_straggler(cell_of({0, 1}, {0, 20}, 19)));
}

TEST_CASE("Being last by a little costs nobody anything", "[straggler][unit]") {
  CHECK_FALSE(find_straggler(cell_of({0, 1}, {0, 0.9}, 1000)));  // what a barrier leaves
  CHECK(find_straggler(cell_of({0, 1}, {0, 1.1}, 1000)));
  CellStats slow = cell_of({0, 1}, {0, 90}, 1000);
  slow.median_s = 10e-3;  // 90 us of 10 ms: 0.9 %
  CHECK_FALSE(find_straggler(slow));
  slow.ranks[1].late_median_s = 110e-6;
  CHECK(find_straggler(slow));
  CellStats apart = cell_of({0, 1}, {0, 9}, 1000);
  apart.clock_error_s = 5e-6;  // the clocks may be 5 us apart either way
  CHECK_FALSE(find_straggler(apart));
  apart.clock_error_s = 4e-6;
  CHECK(find_straggler(apart));
}

TEST_CASE("Two ranks that are equally late are not one straggler", "[straggler][unit]") {
  CHECK_FALSE(find_straggler(cell_of({0, 0, 0.3, 0.7}, {0, 0, 100, 110}, 1000)));
  CHECK_FALSE(find_straggler(cell_of({0, 0, 0.3, 0.7}, {0, 0, 40, 110}, 1000)));
  CHECK(find_straggler(cell_of({0, 0, 0.3, 0.7}, {0, 0, 36, 110}, 1000)));
}

TEST_CASE("Ranks that the scheduler runs one after the other are not blamed", "[straggler][unit]") {
  // Four ranks on two cores, as measured: the last one is twice as late as the one before it.
  CHECK_FALSE(find_straggler(cell_of({0, 0.01, 0, 0.99}, {2.81, 7.84, 0, 15.62}, 1000)));
  CellStats shared = cell_of({0, 1}, {0, 100}, 1000);
  shared.shared_cores = true;
  CHECK_FALSE(find_straggler(shared));
}

TEST_CASE("Nobody is blamed without arrivals, or alone", "[straggler][unit]") {
  CellStats blind = cell_of({0, 1}, {0, 100}, 1000);
  blind.skew_median_s.reset();
  CHECK_FALSE(find_straggler(blind));
  CHECK_FALSE(find_straggler(cell_of({1}, {100}, 1000)));
  CHECK_FALSE(find_straggler(cell_of({}, {}, 1000)));
}
