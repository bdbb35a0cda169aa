#pragma once

#include "common/statistics/random.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace busbar {

/// Box and Muller's: the standard library's normal distribution differs between libraries.
class Normals {
 public:
  explicit Normals(std::uint64_t seed) : random_(seed) {}

  double unit() { return random_.unit(); }

  double next() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(1 - random_.unit()));
    const double angle = 2 * std::numbers::pi * random_.unit();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  Random random_;
  double spare_ = 0;
  bool has_spare_ = false;
};

/// A machine whose speed wanders while time passes: the logarithm of its times has the standard deviation kDrift and
/// forgets exponentially, all cells alike; an epoch has some noise of its own.
class DriftingMachine {
 public:
  static constexpr double kDrift = 0.1;
  static constexpr double kEpochNoise = 0.02;

  DriftingMachine(double correlation_time_s, std::uint64_t seed, double drift = kDrift)
      : correlation_time_s_(correlation_time_s), drift_(drift), normals_(seed), level_(normals_.next()) {}

  void pass(double seconds) {
    const double kept = std::exp(-seconds / correlation_time_s_);
    level_ = kept * level_ + std::sqrt(1 - kept * kept) * normals_.next();
  }

  /// The factor on all times now.
  double level() const { return std::exp(drift_ * level_); }
  double epoch_median() { return level() * std::exp(kEpochNoise * normals_.next()); }

 private:
  double correlation_time_s_;
  double drift_;
  Normals normals_;
  double level_;
};

/// Made-up times of calls, one after the other, with a known law. All have the median 1 but for the regimes.
class SyntheticTimes {
 public:
  enum class Law {
    independent,  ///< log-normal, sd 10 %
    ar1,          ///< log x = AR(1) with phi 0.95, sd 10 %: calls resemble those 20 before them
    regimes,      ///< 1 and 1.25, sd 2 %, dwelling 300 and 200 calls on average; every hundredth call 10 times as long
    drift,        ///< a level with a time constant of 1000 calls, sd 10 %, under noise of 2 % per call
  };

  /// Odd: the median of a batch of log-symmetric times is log-symmetric itself, hence has the median 1 exactly.
  static constexpr int kBatch = 21;

  SyntheticTimes(Law law, std::uint64_t seed) : law_(law), normals_(seed) {
    state_ = normals_.next();
    slow_ = normals_.unit() < kSlowShare;
  }

  double next() {
    skip(1);
    switch (law_) {
      case Law::independent:
        return std::exp(0.1 * normals_.next());
      case Law::ar1:
        return std::exp(0.1 * state_);
      case Law::regimes:
        return (slow_ ? 1.25 : 1.0) * std::exp(0.02 * normals_.next()) * (normals_.unit() < 0.01 ? 10 : 1);
      case Law::drift:
        return std::exp(0.1 * state_ + 0.02 * normals_.next());
    }
    return 1;
  }

  /// Lets `calls` pass unseen: others are measured meanwhile.
  void skip(double calls) {
    if (law_ == Law::ar1) decay(calls == 1 ? 0.95 : std::pow(0.95, calls));
    if (law_ == Law::drift) decay(calls == 1 ? kDriftStep : std::exp(-calls / 1000));
    if (law_ == Law::regimes) {
      // Of a two-state chain that leaves its states at 1/300 and 1/200 per call.
      const double kept = calls == 1 ? kRegimeStep : std::exp(-calls * (1.0 / 300 + 1.0 / 200));
      slow_ = normals_.unit() < kSlowShare + kept * ((slow_ ? 1 : 0) - kSlowShare);
    }
  }

  std::vector<double> samples(int count) {
    std::vector<double> times(static_cast<std::size_t>(count));
    for (double& time : times) time = next();
    return times;
  }

  /// The median of an odd `count` of calls in a row, by sorting: independent of what is tested with it.
  double batch_median(int count) {
    std::vector<double> times = samples(count);
    const auto middle = times.begin() + count / 2;
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }

  /// Medians of batches of kBatch calls with `gap` calls between them.
  std::vector<double> epochs(int count, double gap) {
    std::vector<double> medians(static_cast<std::size_t>(count));
    for (double& value : medians) {
      skip(gap);
      value = batch_median(kBatch);
    }
    return medians;
  }

 private:
  static constexpr double kSlowShare = 0.4;
  static inline const double kDriftStep = std::exp(-1.0 / 1000);
  static inline const double kRegimeStep = std::exp(-(1.0 / 300 + 1.0 / 200));

  void decay(double kept) { state_ = kept * state_ + std::sqrt(1 - kept * kept) * normals_.next(); }

  Law law_;
  Normals normals_;
  double state_ = 0;
  bool slow_ = false;
};

}  // namespace busbar
