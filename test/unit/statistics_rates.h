#pragma once

// How often the statistics are right on synthetic times whose truth is known: what the unit tests bound, and what
// test/bench/statistics_tables.cpp prints for docs/evidence/statistics.md.

#include "common/statistics/interval.h"
#include "common/statistics/paired.h"
#include "common/statistics/prediction.h"
#include "common/statistics/stop_rule.h"
#include "common/statistics/trend.h"
#include "synthetic_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace busbar::rates {

using Law = SyntheticTimes::Law;

inline constexpr double kLongGap = 3000;  // calls of other cells between two epochs of one

/// The median of a call under the regimes: 0.99 * 0.6 of the calls are of the low one; its share 0.5 / 0.594 lies at
/// exp(0.02 * 1.0017).
inline constexpr double kRegimesMedian = 1.0202;

inline bool covers(const std::optional<Interval>& interval, double truth) {
  return interval && interval->low <= truth && truth <= interval->high;
}

/// Of the medians of batches. 1 by symmetry but for the regimes, where the batches that lie across a change count: the
/// middle of 50 thousand of them.
inline double true_epoch_median(Law law) {
  if (law != Law::regimes) return 1;
  std::vector<double> medians = SyntheticTimes(law, 4711).epochs(50001, 5000);
  std::nth_element(medians.begin(), medians.begin() + 25000, medians.end());
  return medians[25000];
}

/// The interval from epochs with `gap` calls between them, of 10 us each.
inline MedianPrediction prediction(const std::vector<double>& medians, double gap) {
  std::vector<double> times_s;
  for (std::size_t i = 0; i < medians.size(); ++i) {
    times_s.push_back(10e-6 * (gap + SyntheticTimes::kBatch) * static_cast<double>(i));
  }
  return predict_median(medians, times_s);
}

/// How often the interval from `epochs` epochs, `gap` calls apart, covers the true median.
inline double coverage(Law law, int epochs, double gap, int trials) {
  const double truth = true_epoch_median(law);
  int covered = 0;
  for (int trial = 0; trial < trials; ++trial) {
    SyntheticTimes times(law, 1000 + static_cast<std::uint64_t>(trial));
    covered += covers(prediction(times.epochs(epochs, gap), gap).interval, truth) ? 1 : 0;
  }
  return static_cast<double>(covered) / trials;
}

/// How often the interval that takes 1000 calls in a row for independent covers the true median of a call.
inline double naive_coverage(Law law, double truth, int trials) {
  int covered = 0;
  for (int trial = 0; trial < trials; ++trial) {
    SyntheticTimes times(law, 1000 + static_cast<std::uint64_t>(trial));
    covered += covers(exact_median_interval(times.samples(1000)), truth) ? 1 : 0;
  }
  return static_cast<double>(covered) / trials;
}

/// Epochs of 20 samples (sd 5 %), of which some are slow as a whole, about three times as slow.
struct BurstyEpochs {
  double share = 0.05;  ///< of all epochs
  int length = 1;       ///< epochs of a burst

  double true_quantile(double q) const {
    const auto normal = [](double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; };
    double low = -1, high = 4;  // of the logarithm
    for (int i = 0; i < 60; ++i) {
      const double x = (low + high) / 2;
      const double below =
          (1 - share) * normal(x / kNoise) + share * normal((x - std::log(3)) / std::hypot(kSpread, kNoise));
      (below < q ? low : high) = x;
    }
    return std::exp(low);
  }

  std::vector<float> samples(int epochs, std::uint64_t seed) const {
    Normals normals(seed);
    std::vector<float> values;
    int left = 0;  // of the burst
    double slow = 0;
    const double begins = 1 - std::pow(1 - share, 1.0 / length);
    for (int epoch = -length; epoch < epochs; ++epoch) {
      if (normals.unit() < begins) {
        left = length;
        slow = std::log(3) + kSpread * normals.next();
      }
      for (int i = 0; epoch >= 0 && i < kSamples; ++i) {
        values.push_back(static_cast<float>(std::exp((left > 0 ? slow : 0) + kNoise * normals.next())));
      }
      left = std::max(0, left - 1);
    }
    return values;
  }

  static constexpr int kSamples = 20;
  static constexpr double kNoise = 0.05, kSpread = 0.3;
};

struct QuantileRates {
  double told = 0;     ///< share of the trials that have an interval
  double covered = 0;  ///< share of these
  double naive = 0;    ///< of the interval that takes all samples for independent
};

inline QuantileRates quantile_rates(const BurstyEpochs& law, double q, int epochs, int trials) {
  const double truth = law.true_quantile(q);
  std::vector<std::size_t> ends;
  for (int i = 1; i <= epochs; ++i) ends.push_back(static_cast<std::size_t>(i) * BurstyEpochs::kSamples);
  int told = 0, covered = 0, naive = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const std::vector<float> values = law.samples(epochs, 2000 + static_cast<std::uint64_t>(trial));
    std::vector<double> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    const std::optional<Interval> interval = quantile_interval(values, ends, sorted, q);
    told += interval ? 1 : 0;
    covered += covers(interval, truth) ? 1 : 0;
    naive += covers(quantile_interval(sorted, q), truth) ? 1 : 0;
  }
  const auto share = [](int n, int of) { return of > 0 ? static_cast<double>(n) / of : 0; };
  return {share(told, trials), share(covered, told), share(naive, trials)};
}

struct Stopped {
  int precise = 0;  ///< trials
  int noisy = 0;
  int covered = 0;  ///< of the precise
};

/// Measures until the stop rule ends it.
inline Stopped run_to_stop(Law law, double rel, int trials) {
  const StopRule rule{.rel = rel, .min_epochs = 10, .max_epochs = 200};
  const double truth = true_epoch_median(law);
  Stopped stopped;
  for (int trial = 0; trial < trials; ++trial) {
    SyntheticTimes times(law, 5000 + static_cast<std::uint64_t>(trial));
    StopState state;
    std::vector<double> medians;
    // A cell that passes for the first time with its last epoch has one more, to pass again.
    for (int epochs = 1; epochs <= rule.max_epochs + 1; ++epochs) {
      times.skip(kLongGap);
      medians.push_back(times.batch_median(SyntheticTimes::kBatch));
      if (epochs < rule.min_epochs) continue;
      const MedianPrediction estimate = prediction(medians, kLongGap);
      if (precise_enough(rule, state, epochs, estimate.relative_half_width())) {
        ++stopped.precise;
        stopped.covered += covers(estimate.interval, truth) ? 1 : 0;
        break;
      }
      if (hopeless(rule, epochs, estimate.relative_half_width())) {
        ++stopped.noisy;
        break;
      }
    }
  }
  return stopped;
}

/// Log ratios of `count` rounds of B against A, which takes 1/ratio as long: each the middle of 8 turns, AB or BA by a
/// coin in each pair of them, on communicators that differ by `between` (sd) for as long as they live.
inline std::vector<double> rounds(Law law, double ratio, std::uint64_t seed, double between = 0,
                                  int count = kLooks.back()) {
  SyntheticTimes times(law, seed);
  SyntheticTimes own(Law::independent, seed + 700'000);  // sd 0.1
  Random coin(seed);
  std::vector<double> logs;
  for (int round = 0; round < count; ++round) {
    std::vector<double> turns;
    bool b_first = false;
    times.skip(1600);  // other sizes
    for (int turn = 0; turn < 8; ++turn) {
      b_first = turn % 2 == 0 ? coin.below(2) == 1 : !b_first;
      double first = times.batch_median(SyntheticTimes::kBatch);
      times.skip(4);
      double second = times.batch_median(SyntheticTimes::kBatch);
      if (b_first) std::swap(first, second);
      turns.push_back(std::log(ratio * second / first));
    }
    logs.push_back(hodges_lehmann(turns) + between / 0.1 * std::log(own.next() / own.next()));
  }
  return logs;
}

/// The verdict at the first look that has one.
inline Difference compare(const std::vector<double>& logs, double delta) {
  for (int look : kLooks) {
    const auto ratio = round_ratio(std::span(logs).first(static_cast<std::size_t>(look)), 1 - kLookLevel);
    const Difference verdict = judge(ratio->interval, delta);
    if (verdict == Difference::faster || verdict == Difference::slower) return verdict;
    if (delta > 0 && verdict == Difference::equivalent) return verdict;
  }
  return Difference::undecided;
}

/// Of `trials` comparisons, how many end so.
inline int count(Law law, double ratio, double delta, Difference verdict, std::uint64_t trials, double between = 0) {
  int found = 0;
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    found += compare(rounds(law, ratio, 9000 + trial, between), delta) == verdict ? 1 : 0;
  }
  return found;
}

struct Equals {
  int raw = 0;   ///< the interval excluded 1 at some look
  int band = 0;  ///< the verdict with the 2 % band was faster or slower
};

inline Equals compare_equals(Law law, std::uint64_t trials, double between = 0) {
  Equals equals;
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    const auto logs = rounds(law, 1, 9000 + trial, between);
    equals.raw += compare(logs, 0) != Difference::undecided ? 1 : 0;
    const Difference verdict = compare(logs, 0.02);
    equals.band += verdict == Difference::faster || verdict == Difference::slower ? 1 : 0;
  }
  return equals;
}

/// Two-sided p of the Mann-Whitney test, normal approximation; samples without ties.
inline double mann_whitney_p(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const double z = (probability_faster(a, b) - 0.5) * n * m / std::sqrt(n * m * (n + m + 1) / 12);
  return std::erfc(std::fabs(z) / std::sqrt(2.0));
}

/// Of `trials` pairs of equals, how many Mann-Whitney on samples tells apart, measured one after the other.
inline int found_in_sequence(Law law, std::uint64_t trials) {
  int found = 0;
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    SyntheticTimes times(law, 77000 + trial);
    const auto a = times.samples(500);
    found += mann_whitney_p(a, times.samples(500)) < 0.05 ? 1 : 0;
  }
  return found;
}

/// Of `trials` pairs of equals, how many a 95 % interval tells apart that is looked at after every round.
inline int found_by_peeking(Law law, std::uint64_t trials) {
  int found = 0;
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    const auto logs = rounds(law, 1, 9000 + trial, 0, 30);
    bool differs = false;
    for (std::size_t n = 4; n <= logs.size() && !differs; ++n) {
      const auto ratio = round_ratio(std::span(logs).first(n));
      differs = ratio && judge(ratio->interval, 0) != Difference::undecided;
    }
    found += differs ? 1 : 0;
  }
  return found;
}

/// Launches that differ by `between` and have epochs that differ by `within`, both as log-normal sd.
inline std::vector<std::vector<double>> launches(int count, double between, double within, std::uint64_t seed) {
  SyntheticTimes noise(SyntheticTimes::Law::independent, seed);  // sd 0.1
  std::vector<std::vector<double>> result(static_cast<std::size_t>(count));
  for (auto& launch : result) {
    const double level = std::pow(noise.next(), between / 0.1);
    for (int i = 0; i < 10; ++i) launch.push_back(level * std::pow(noise.next(), within / 0.1));
  }
  return result;
}

/// How many of `trials` intervals from `count` launches cover the true median of launches, 1.
inline int launches_covered(int count, int trials) {
  int covered = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const auto seed = static_cast<std::uint64_t>(100 + trial);
    const auto merged = merge_launches(launches(count, 0.1, 0.02, seed), seed);
    covered += merged.interval->low <= 1 && 1 <= merged.interval->high ? 1 : 0;
  }
  return covered;
}

/// Standard normal values of which neighbours have the correlation `phi`.
inline std::vector<double> correlated(int count, double phi, std::uint64_t seed) {
  SyntheticTimes noise(Law::independent, seed);  // sd 0.1
  const auto normal = [&] { return std::log(noise.next()) / 0.1; };
  std::vector<double> values(static_cast<std::size_t>(count));
  double state = normal();
  for (double& value : values) {
    value = state;
    state = phi * state + std::sqrt(1 - phi * phi) * normal();
  }
  return values;
}

/// Comparisons by launches that alternate three seconds apart, while the machine wanders by 10 % with a correlation
/// time of 30 s; each launch has 2 % of its own.
struct LaunchPairs {
  int slower = 0;        ///< verdicts beyond the band of 2 %
  int excludes_one = 0;  ///< intervals
};

inline LaunchPairs launch_pairs(double ratio, int trials, int rounds = 8) {
  LaunchPairs found;
  for (int trial = 0; trial < trials; ++trial) {
    const auto seed = 83000 + static_cast<std::uint64_t>(trial);
    const std::vector<double> machine = correlated(2 * rounds, std::exp(-0.1), seed);
    const std::vector<double> own = correlated(2 * rounds, 0, seed + 500'000);
    Random coin(seed);
    std::vector<double> logs;
    for (std::size_t i = 0; i < machine.size(); i += 2) {
      const double later = 0.1 * (machine[i + 1] - machine[i]) + 0.02 * (own[i + 1] - own[i]);
      logs.push_back(std::log(ratio) + (coin.below(2) == 1 ? later : -later));
    }
    const Interval interval = round_ratio(logs)->interval;
    found.slower += judge(interval, 0.02) == Difference::slower ? 1 : 0;
    found.excludes_one += judge(interval, 0) != Difference::undecided ? 1 : 0;
  }
  return found;
}

/// What launches say that truly differ by 5 %, with 50 epochs of which every fiftieth takes five times as long.
struct Between {
  int none = 0;     ///< trials that say 0
  double mean = 0;  ///< of the standard deviations
};

inline Between between_with_spikes(int trials) {
  Between said;
  for (int trial = 0; trial < trials; ++trial) {
    SyntheticTimes noise(Law::independent, 52000 + static_cast<std::uint64_t>(trial));
    Random chance(77 + static_cast<std::uint64_t>(trial));
    std::vector<std::vector<double>> all(10);
    for (std::vector<double>& launch : all) {
      const double level = std::sqrt(noise.next());  // sd 5 %
      for (int i = 0; i < 50; ++i) {
        launch.push_back(level * std::pow(noise.next(), 0.2) * (chance.unit() < 0.02 ? 5 : 1));
      }
    }
    const double sd = std::sqrt(merge_launches(all, 1).variance_between);
    said.none += sd == 0 ? 1 : 0;
    said.mean += sd / trials;
  }
  return said;
}

/// How many of `trials` intervals of six launches cover what the machine shows in the long run, where launches lie
/// `apart` correlation times of its state apart.
inline int spaced_covered(double apart, int trials) {
  int covered = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> medians;
    for (const double state : correlated(6, std::exp(-apart), 64000 + static_cast<std::uint64_t>(trial))) {
      medians.push_back(std::exp(0.1 * state));
    }
    covered += covers(exact_median_interval(medians), 1) ? 1 : 0;
  }
  return covered;
}

/// How often each of history's hints is given at 1 %.
struct Hints {
  int last = 0;
  int trend = 0;
  int level = 0;
};

/// Of `trials` series of `count` runs: `drift` in all, or a jump of as much in the middle for the hint of a level and
/// with the last run for the hint of that, over noise of standard deviation `sd`.
inline Hints hints(int count, double phi, double sd, double change, int trials) {
  Hints found;
  for (int trial = 0; trial < trials; ++trial) {
    const std::vector<double> noise = correlated(count, phi, 31000 + static_cast<std::uint64_t>(trial));
    std::vector<double> drifting, jumping, last;
    for (int i = 0; i < count; ++i) {
      const double value = sd * noise[static_cast<std::size_t>(i)];
      drifting.push_back(value + change * i / (count - 1));
      jumping.push_back(value + (2 * i >= count ? change : 0));
      last.push_back(value + (i == count - 1 ? change : 0));
    }
    found.last += last_value_p(last) <= 0.01 ? 1 : 0;
    found.trend += trend_p(drifting) <= 0.01 ? 1 : 0;
    found.level += level_change(jumping, 0.01) ? 1 : 0;
  }
  return found;
}

}  // namespace busbar::rates
