// Catches: a cell that stops on one lucky interval, that never stops on noise, that reports a stop it did not reach,
// whose quantiles are of the wrong samples, and a shape of batches that the clock cannot measure.

#include "common/measure/sampler.h"
#include "common/statistics/random.h"

#include <catch2/catch.hpp>

using namespace busbar;

namespace {

constexpr StopLimits kLimits{.rule = {.rel = 0.01, .min_epochs = 10, .max_epochs = 50}, .cell_time_s = 1e9};

Batch constant_batch(double time_s, int n = 5) {
  Batch batch;
  batch.time_s.assign(n, time_s);
  batch.own_s.assign(n, time_s);
  return batch;
}

/// Adds epochs of 10 ms each, the `epoch`th from 1 on.
void add(StatCell& cell, int epoch, double time_s) {
  Batch batch = constant_batch(time_s);
  batch.now_s = 0.01 * epoch;
  cell.add(batch, 0.01, 1);
}

}  // namespace

TEST_CASE("a steady cell stops after the least number of epochs and one more", "[measure][stat]") {
  StatCell cell(1000, false);
  int epochs = 0;
  std::optional<StopReason> why;
  while (!why && epochs < 100) {
    add(cell, ++epochs, 1e-3);
    why = cell.test(kLimits);
  }
  CHECK(why == StopReason::ci);
  CHECK(epochs == 11);  // two narrow intervals in a row, the first at 10 epochs
  const CellStats stats = cell.stats(*why);
  CHECK(stats.median_s == Approx(1e-3));
  CHECK(stats.relative_half_width == 0);
  CHECK(stats.samples == 55);
  CHECK(stats.epoch_medians_s.size() == 11);
  CHECK_FALSE(stats.quantiles.at(3).interval_s);  // 55 samples say nothing about p99
  CHECK_FALSE(stats.skew_median_s);
}

TEST_CASE("a cell of pure noise says so instead of pretending", "[measure][stat]") {
  StatCell cell(1000, false);
  Random random(3);
  int epochs = 0;
  std::optional<StopReason> why;
  while (!why && epochs < 100) {
    add(cell, ++epochs, 1e-3 * (1 + 9 * random.unit()));
    why = cell.test(kLimits);
  }
  CHECK(why == StopReason::noisy);
  CHECK(epochs <= 50);
  CHECK(cell.stats(*why).relative_half_width > 0.01);
}

TEST_CASE("a cell out of time says so; the minimum time keeps a steady one going", "[measure][stat]") {
  StopLimits limits = kLimits;
  limits.cell_time_s = 0.05;
  StatCell cell(1000, false);
  Random random(3);
  for (int epoch = 1; epoch <= 4; ++epoch) {
    add(cell, epoch, 1e-3 * (1 + 0.05 * random.unit()));
    CHECK_FALSE(cell.test(limits));
  }
  add(cell, 5, 1e-3);  // 5 x 0.01 s spent
  CHECK(cell.test(limits) == StopReason::time);

  StatCell steady(1000, false);
  limits = kLimits;
  limits.min_time_s = 0.1;  // 20 epochs of 5 ms
  for (int epoch = 1; epoch < 20; ++epoch) {
    add(steady, epoch, 1e-3);
    CHECK_FALSE(steady.test(limits));
  }
  add(steady, 20, 1e-3);
  CHECK(steady.test(limits) == StopReason::ci);
}

TEST_CASE("cell-time ends no cell before its least epochs", "[measure][stat]") {
  StopLimits limits = kLimits;
  limits.cell_time_s = 0.005;  // less than one epoch takes: it ended there
  limits.least_epochs = 8;
  StatCell cell(1000, false);
  for (int epoch = 1; epoch < 8; ++epoch) {
    add(cell, epoch, 1e-3 * epoch);
    CHECK_FALSE(cell.test(limits));
  }
  add(cell, 8, 1e-3);
  CHECK(cell.test(limits) == StopReason::time);
}

TEST_CASE("a cell that looks steady goes on for the least span, and says how long it looked", "[measure][stat]") {
  StopLimits limits = kLimits;
  limits.rule.max_epochs = 400;
  limits.least_span_s = 0.5;
  StatCell cell(1000, false);
  int epochs = 0;
  std::optional<StopReason> why;
  while (!why) {
    add(cell, ++epochs, 1e-3);
    why = cell.test(limits);
  }
  CHECK(why == StopReason::ci);
  CHECK(epochs >= 50);
  CHECK(epochs <= 55);  // it looks again when there is a tenth more
  CHECK(cell.stats(*why).span_s == Approx(0.01 * epochs));
}

TEST_CASE("a cell that rises all the time is out of time, however narrow its interval", "[measure][stat]") {
  StopLimits limits = kLimits;
  limits.rule = {.rel = 0.5, .min_epochs = 10, .max_epochs = 400};
  limits.cell_time_s = 1;
  StatCell cell(1000, false);
  int epochs = 0;
  std::optional<StopReason> why;
  while (!why) {
    ++epochs;
    add(cell, epochs, 1e-3 * (1 + 1e-4 * epochs));
    why = cell.test(limits);
  }
  CHECK(why == StopReason::time);
  const CellStats stats = cell.stats(*why);
  CHECK(stats.relative_half_width < 0.5);
  CHECK(stats.correlation_time_s > stats.span_s / 12);

  limits.rule.max_epochs = 30;  // the last of them is no reason to call it noisy
  StatCell few(1000, false);
  for (int epoch = 1; epoch < 30; ++epoch) {
    add(few, epoch, 1e-3 * (1 + 1e-4 * epoch));
    CHECK_FALSE(few.test(limits));
  }
  add(few, 30, 1e-3 * (1 + 1e-4 * 30));
  CHECK(few.test(limits) == StopReason::time);
}

TEST_CASE("a rank's lateness is counted over all samples", "[measure][stat]") {
  StatCell cell(1000, true);
  Batch batch = constant_batch(1e-3, 4);
  batch.skew_s = {1e-6, 2e-6, 3e-6, 4e-6};
  batch.late_s = {0, 2e-6, 3e-6, 4e-6};
  batch.last = {0, 1, 1, 1};
  cell.add(batch, 0.01, 1);
  const RankTime rank = cell.own_rank();
  CHECK(rank.own_median_s == Approx(1e-3));
  CHECK(rank.last_share == 0.75);
  CHECK(*rank.late_p99_s == Approx(4e-6));
  CHECK(*cell.stats(StopReason::time).skew_p99_s == Approx(4e-6));
}

TEST_CASE("thinned samples keep the whole run's shape in bounded memory", "[measure][stat]") {
  ThinnedSamples samples(100);
  for (int i = 0; i < 100000; ++i) samples.add(i);
  CHECK(samples.count() == 100000);
  CHECK(samples.largest() == 99999);
  CHECK(samples.sum() == 99999.0 * 100000 / 2);
  CHECK(samples.kept().size() <= 100);
  CHECK(samples.kept().size() >= 50);
  const std::vector<double> sorted = samples.sorted();
  CHECK(quantile(sorted, 0.5) == Approx(50000).epsilon(0.03));
  CHECK(quantile(sorted, 0.9) == Approx(90000).epsilon(0.03));
}

TEST_CASE("a batch is as long as asked, and a sample longer than 20 readings of the clock", "[measure][stat]") {
  const BatchShape normal = shape_for(100e-6, 50e-9, 10e-3, 5, 2000, Cadence::isolated);
  CHECK(normal.samples == 100);
  CHECK(normal.calls_per_sample == 1);
  const BatchShape shortest = shape_for(0.3e-6, 50e-9, 10e-3, 5, 2000, Cadence::isolated);
  CHECK(shortest.calls_per_sample == 4);  // 1 us / 0.3 us
  CHECK(shortest.samples == 2000);
  const BatchShape longest = shape_for(1.0, 50e-9, 10e-3, 5, 2000, Cadence::stream);
  CHECK(longest.samples == 5);
  CHECK(longest.settle == 1);
  CHECK(longest.cadence == Cadence::stream);
}
