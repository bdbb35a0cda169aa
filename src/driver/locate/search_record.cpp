#include "driver/locate/search_record.h"

#include "common/base/lists.h"
#include "common/statistics/distributions.h"
#include "common/statistics/interval.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>

namespace busbar {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// What a round did to all its pairs: the median of its deviations from each pair's own median.
void take_off_rounds(std::vector<std::vector<double>>& logs) {
  std::vector<std::vector<double>> deviations;
  for (const std::vector<double>& pair : logs) {
    std::vector<double> there = pair;
    std::erase_if(there, [](double x) { return std::isnan(x); });
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

constexpr double kDrift = 0.05;
constexpr double kAlarmSum = 0.5;
constexpr int kVotes = 3;
constexpr std::size_t kMostSlow = 1'000'000;

using GroupsOfLevels = std::map<std::pair<int, std::vector<int>>, SlowGroup>;

double chance_of(const SlowGroup& group, const GroupsOfLevels& all) {
  double slow = 0.5;
  double measured = 1;
  for (const auto& [key, other] : all) {
    const auto is_in_it = [&, &units = other.units](int unit) { return std::ranges::binary_search(units, unit); };
    if (std::ranges::any_of(group.units, is_in_it)) continue;
    slow += other.measurements.slow;
    measured += other.measurements.measured;
  }
  return static_cast<double>(all.size()) * std::pow(slow / measured, group.measurements.slow);
}

}  // namespace

double noise_of_repeats(std::span<const std::vector<double>> repeats) {
  auto logs = mapped(repeats, [](const std::vector<double>& pair) {
    return mapped(pair, [](double value) { return value > 0 ? std::log(value) : kMissing; });
  });
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

double best_quartile(std::vector<double> values) {
  std::ranges::sort(values, std::greater<>());
  values.resize((values.size() + 3) / 4);
  return median(values);
}

int calibration_repeats(int npairs) { return std::clamp((16 + npairs - 1) / std::max(npairs, 1), 1, 4); }

double slow_threshold(double noise, double warn) {
  constexpr double kDeviations = 4;
  constexpr double kNoisyDeviations = 5;
  if (std::isnan(noise)) return warn;
  return std::min(warn, std::max(1 - kDeviations * noise, std::exp(-kNoisyDeviations * noise)));
}

SoakWatch::SoakWatch(int nunits) : units_(static_cast<std::size_t>(nunits)) {}

void SoakWatch::watch(Unit& unit, double ratio, int window) const {
  ++unit.measured;
  unit.sum = std::max(0.0, unit.sum - std::log(ratio) - kDrift);
  if (unit.sum < kAlarmSum) return;
  unit.windows |= 1U << window;
  unit.sum = 0;
}

void SoakWatch::add(std::span<const std::pair<int, int>> pairs, std::span<const double> ratios, double threshold,
                    int window) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!(ratios[i] > 0)) continue;
    const auto [a, b] = pairs[i];
    ++measured_;
    watch(units_[a], ratios[i], window);
    watch(units_[b], ratios[i], window);
    if (ratios[i] < threshold && slow_.size() < kMostSlow) slow_.push_back({a, b, static_cast<float>(ratios[i])});
  }
}

std::vector<SoakFlag> SoakWatch::flags() const {
  std::vector<SoakFlag> found;
  std::vector<Slow> left = slow_;
  while (!left.empty()) {
    std::vector<int> slow(units_.size());
    for (const Slow& pair : left) {
      ++slow[pair.a];
      ++slow[pair.b];
    }
    const auto share = [&](std::size_t u) { return slow[u] / std::max(1.0, static_cast<double>(units_[u].measured)); };
    std::size_t worst = 0;
    for (std::size_t u = 1; u < units_.size(); ++u) {
      if (share(u) > share(worst)) worst = u;
    }
    const Unit& unit = units_[worst];
    const double others = static_cast<double>(left.size()) - slow[worst];
    const double rate = (others + 0.5) / (static_cast<double>(measured_) - unit.measured + 1);
    SoakFlag flag;
    flag.unit = static_cast<int>(worst);
    flag.windows = std::popcount(unit.windows);
    flag.slow = slow[worst];
    flag.measured = unit.measured;
    flag.chance =
        static_cast<double>(units_.size()) *
        binomial_cdf(static_cast<std::size_t>(flag.measured), 1 - std::min(rate, 0.999), flag.measured - flag.slow);
    if (flag.chance > kFalseSuspects) break;
    const auto its = [&](const Slow& pair) { return pair.a == flag.unit || pair.b == flag.unit; };
    for (const Slow& pair : left) {
      if (its(pair)) flag.ratio += static_cast<double>(pair.ratio) / flag.slow;
    }
    left.erase(std::remove_if(left.begin(), left.end(), its), left.end());
    if (flag.windows >= kVotes) found.push_back(flag);
  }
  return found;
}

std::vector<int> slow_rails(const SearchRecord& record, int unit) {
  std::map<int, std::vector<double>> own;
  std::map<int, std::vector<double>> others;
  double best = 0;
  for (const PairResult& result : record.results) {
    if (result.kind != LocateRound::Kind::rail) continue;
    const auto bandwidth = static_cast<double>(result.bandwidth);
    if (result.tested == unit) {
      own[result.rail].push_back(bandwidth);
      best = std::max(best, bandwidth);
    } else if (result.tested == PairResult::kNothing) {
      others[result.rail].push_back(bandwidth);
    }
  }
  std::vector<int> slow;
  for (const auto& [rail, values] : own) {
    const auto found = others.find(rail);
    const double normal = found == others.end() ? best : median(found->second);
    if (*std::ranges::max_element(values) < record.threshold * normal) slow.push_back(rail);
  }
  return slow;
}

std::vector<SlowGroup> slow_groups(const SearchRecord& record) {
  if (record.groups.empty()) return {};
  std::map<int, std::vector<double>> of_level;
  for (const GroupResult& group : record.groups) of_level[group.level].push_back(group.bandwidth);
  std::map<int, double> limits;  // below which bandwidth a group is slow
  for (const auto& [level, values] : of_level) limits[level] = record.threshold * best_quartile(values);
  const int last = limits.rbegin()->first;
  GroupsOfLevels all;
  for (const GroupResult& group : record.groups) {
    const double limit = limits.at(group.level);
    SlowGroup& entry = all[{group.level, group.units}];
    entry.units = group.units;
    entry.measurements.add(group.bandwidth / (limit / record.threshold), group.bandwidth < limit);
  }
  std::vector<SlowGroup> found;
  for (const auto& [key, group] : all) {
    // The last groups are pairs, which have confirmations of their own.
    if (group.measurements.slow < group.measurements.measured || key.first == last) continue;
    const bool part_is_slow = std::ranges::any_of(all, [&, level = key.first, &units = key.second](auto& other) {
      const SlowCount& its = other.second.measurements;
      return its.slow == its.measured && other.first.first == level + 1 && other.second.units != units &&
             std::includes(units.begin(), units.end(), other.second.units.begin(), other.second.units.end());
    });
    if (part_is_slow) continue;
    found.push_back(group);
    found.back().chance = chance_of(group, all);
  }
  return found;
}

}  // namespace busbar
