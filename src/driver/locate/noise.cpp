#include "driver/locate/noise.h"

#include "common/statistics/interval.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace busbar {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

std::vector<std::vector<double>> logarithms(std::span<const std::vector<double>> repeats) {
  std::vector<std::vector<double>> logs;
  for (const std::vector<double>& pair : repeats) {
    logs.emplace_back();
    for (const double value : pair) logs.back().push_back(value > 0 ? std::log(value) : kMissing);
  }
  return logs;
}

/// What a round did to all its pairs: the median of its deviations from each pair's own median.
void take_off_rounds(std::vector<std::vector<double>>& logs) {
  std::vector<std::vector<double>> deviations;
  for (const std::vector<double>& pair : logs) {
    std::vector<double> there;
    std::ranges::copy_if(pair, std::back_inserter(there), [](double x) { return !std::isnan(x); });
    const double middle = there.empty() ? kMissing : median(there);
    deviations.resize(std::max(deviations.size(), pair.size()));
    for (std::size_t round = 0; round < pair.size(); ++round) {
      if (!std::isnan(pair[round])) deviations[round].push_back(pair[round] - middle);
    }
  }
  for (std::size_t round = 0; round < deviations.size(); ++round) {
    if (deviations[round].empty()) continue;
    const double common = median(deviations[round]);
    for (std::vector<double>& pair : logs) {
      if (round < pair.size()) pair[round] -= common;
    }
  }
}

}  // namespace

double noise_of_repeats(std::span<const std::vector<double>> repeats) {
  std::vector<std::vector<double>> logs = logarithms(repeats);
  constexpr std::size_t kEnoughForRounds = 8;
  if (logs.size() >= kEnoughForRounds) take_off_rounds(logs);
  std::vector<double> differences;
  for (const std::vector<double>& pair : logs) {
    for (std::size_t i = 0; i < pair.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const double difference = std::abs(pair[i] - pair[j]);
        if (!std::isnan(difference)) differences.push_back(difference);
      }
    }
  }
  if (differences.empty()) return kMissing;
  constexpr double kMedianOfNormalDifference = 0.9538726;  // 0.6744898 sqrt(2)
  return median(differences) / kMedianOfNormalDifference;
}

double spread_of_pairs(std::span<const double> bandwidths) {
  constexpr std::size_t kFewest = 6;
  if (bandwidths.size() < kFewest) return kMissing;
  const double middle = median(bandwidths);
  std::vector<double> deviations;
  for (const double value : bandwidths) deviations.push_back(std::abs(value / middle - 1));
  constexpr double kDeviationOfNormal = 1.4826022;
  return kDeviationOfNormal * median(deviations);
}

int calibration_repeats(int npairs) { return std::clamp((16 + npairs - 1) / std::max(npairs, 1), 1, 4); }

double slow_threshold(double noise, double warn) {
  constexpr double kDeviations = 4;
  constexpr double kNoisyDeviations = 5;
  if (std::isnan(noise)) return warn;
  return std::min(warn, std::max(1 - kDeviations * noise, std::exp(-kNoisyDeviations * noise)));
}

}  // namespace busbar
