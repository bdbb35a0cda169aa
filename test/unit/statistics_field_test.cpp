// Would catch: an interval of --stat that leaves out where the next minute lies, on a machine that drifts while cells
// take turns (the rule before this one covered 7 % with one cell and a correlation time of 3 s), or one that covers by
// being wide. The bounds are the requirement; docs/evidence/statistics.md has the figures of ten times as many trials.

#include "field_rates.h"
#include "run_catch.h"

#include <catch2/catch.hpp>

#include <utility>

using namespace busbar;
using namespace busbar::rates;

namespace {

constexpr int kTrials = 200;
constexpr int kCells[] = {1, 2, 5, 20};

}  // namespace

TEST_CASE("Over six correlation times of the drift the interval covers the next minute", "[statistics][field][slow]") {
  for (const double correlation_time_s : {0.1, 1.0, 3.0, 10.0}) {
    double covered = 0;
    for (const int cells : kCells) {
      CAPTURE(correlation_time_s, cells);
      const Field field{.correlation_time_s = correlation_time_s, .cells = cells};
      const Covered at = covered_after(field, 6 * correlation_time_s, kTrials);
      CHECK(at.half_width <= 2 * oracle_half_width(field, at.span_s));
      covered += at.share / std::size(kCells);
    }
    CHECK(covered >= 0.9);
  }
}

TEST_CASE("Longer spans make intervals narrow, and they cover still", "[statistics][field]") {
  const Field field{.correlation_time_s = 0.1, .cells = 5};
  const Covered at = covered_after(field, 6, kTrials);  // 60 correlation times
  CHECK(at.share >= 0.9);
  CHECK(at.half_width <= 2 * oracle_half_width(field, at.span_s));
  CHECK(at.half_width < 0.08);
}

TEST_CASE("Cells that stop where the drift is short are precise and right", "[statistics][field][stop][slow]") {
  const Field field{
      .correlation_time_s = 0.1, .cells = 5, .limits = {.rule = {.rel = 0.05}, .least_span_s = 2, .cell_time_s = 20}};
  const Covered at = covered_when_stopped(field, 50);
  // 0.52 of 250 (0.79 before a longer correlation time had to be excluded, but then 5 % of all were wrong): the others
  // saw a stretch whose correlation time looked longer than it is.
  CHECK(at.stopped_ci >= 0.4);
  CHECK(at.right_ci >= 0.9);
}

TEST_CASE("A machine that does not drift lets cells stop as precise at once", "[statistics][field][stop][slow]") {
  const Field field{
      .drift = 0, .cells = 2, .limits = {.rule = {.rel = 0.01}, .least_span_s = kLeastSpan, .cell_time_s = 20}};
  const Covered at = covered_when_stopped(field, 50);
  CHECK(at.stopped_ci >= 0.9);
  CHECK(at.span_s <= 2 * kLeastSpan);
}

TEST_CASE("Few cells of the shipped plans stop as precise without covering, whatever the correlation time",
          "[statistics][field][stop][slow]") {
  // 28 and 21 % stopped so at a correlation time of 10 s when the span had to be twelve estimated correlation times
  // alone.
  for (const auto& [cells, rel] : {std::pair(3, 0.05), std::pair(2, 0.05), std::pair(6, 0.02)}) {
    for (const double correlation_time_s : {10.0, 3.0, 1.0}) {
      if (correlation_time_s != 10 && !more()) continue;
      CAPTURE(cells, correlation_time_s);
      const Field field{.correlation_time_s = correlation_time_s,
                        .cells = cells,
                        .limits = {.rule = {.rel = rel}, .least_span_s = kLeastSpan, .cell_time_s = 2}};
      CHECK(covered_when_stopped(field, 120 / cells).wrong_ci <= 0.04);
    }
  }
}

TEST_CASE("A drift that is longer than the limits stops no cell as precise, but by luck",
          "[statistics][field][stop][slow]") {
  const Field field{
      .correlation_time_s = 3, .cells = 2, .limits = {.rule = {.rel = 0.02}, .least_span_s = 2, .cell_time_s = 3}};
  CHECK(covered_when_stopped(field, 50).stopped_ci <= 0.1);
}

TEST_CASE("A machine that wanders is seldom said to drift, and one that slows down is", "[statistics][field][slow]") {
  // Mann and Kendall's test on the epochs was below 0.01 in 54 to 88 % of these.
  int wandering = 0;
  int slowing = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    for (const double correlation_time_s : {0.1, 1.0, 10.0})
      wandering += said_to_drift(correlation_time_s, DriftingMachine::kDrift, 0, 400, kEpochTime, trial) ? 1 : 0;
    slowing += said_to_drift(1, 0, 0.1, 400, kEpochTime, trial) ? 1 : 0;
  }
  CHECK(wandering <= 0.02 * 3 * kTrials);  // 1 % and twice its deviation
  CHECK(slowing >= 0.9 * kTrials);         // by 10 % in all
}
