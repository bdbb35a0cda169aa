#include "driver/locate/search_record.h"

#include "common/statistics/distributions.h"
#include "common/statistics/interval.h"
#include "driver/locate/score_pairs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace busbar {
namespace {
constexpr double kDrift = 0.05;
constexpr double kAlarm = 0.5;
constexpr int kVotes = 3;
constexpr std::size_t kMostSlow = 1'000'000;
}  // namespace

SoakWatch::SoakWatch(int nunits) : units_(static_cast<std::size_t>(nunits)) {}

void SoakWatch::watch(Unit& unit, double ratio, int window) const {
  ++unit.measured;
  unit.sum = std::max(0.0, unit.sum - std::log(ratio) - kDrift);
  if (unit.sum < kAlarm) return;
  unit.windows |= 1U << window;
  unit.sum = 0;
}

void SoakWatch::add(std::span<const std::pair<int, int>> pairs, std::span<const double> ratios, double threshold,
                    int window) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!(ratios[i] > 0)) continue;
    const auto [a, b] = pairs[i];
    ++measured_;
    watch(units_[static_cast<std::size_t>(a)], ratios[i], window);
    watch(units_[static_cast<std::size_t>(b)], ratios[i], window);
    if (ratios[i] < threshold && slow_.size() < kMostSlow) slow_.push_back({a, b, static_cast<float>(ratios[i])});
  }
}

std::vector<SoakFlag> SoakWatch::flags() const {
  std::vector<SoakFlag> found;
  std::vector<Slow> left = slow_;
  while (!left.empty()) {
    std::vector<int> slow(units_.size());
    for (const Slow& pair : left) {
      ++slow[static_cast<std::size_t>(pair.a)];
      ++slow[static_cast<std::size_t>(pair.b)];
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

namespace {

/// Level by level below which bandwidth a group is slow.
std::map<int, double> slow_limits(const SearchRecord& record) {
  std::map<int, std::vector<double>> of_level;
  for (const GroupResult& group : record.groups) of_level[group.level].push_back(group.bandwidth);
  std::map<int, double> limits;
  for (auto& [level, values] : of_level) {
    std::ranges::sort(values, std::greater<>());
    values.resize((values.size() + 3) / 4);
    limits[level] = record.threshold * median(values);
  }
  return limits;
}

bool share_a_unit(const std::vector<int>& a, const std::vector<int>& b) {
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (*x == *y) return true;
    *x < *y ? ++x : ++y;
  }
  return false;
}

using GroupsOfLevels = std::map<std::pair<int, std::vector<int>>, SlowGroup>;

double chance_of(const SlowGroup& group, const GroupsOfLevels& all) {
  double slow = 0.5;
  double measured = 1;
  for (const auto& [key, other] : all) {
    if (share_a_unit(group.units, other.units)) continue;
    slow += other.measurements.slow;
    measured += other.measurements.measured;
  }
  return static_cast<double>(all.size()) * std::pow(slow / measured, group.measurements.slow);
}

}  // namespace

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
  const std::map<int, double> limits = slow_limits(record);
  if (limits.empty()) return {};
  const int last = limits.rbegin()->first;
  GroupsOfLevels all;
  for (const GroupResult& group : record.groups) {
    SlowGroup& entry = all[{group.level, group.units}];
    entry.units = group.units;
    entry.measurements.add(group.bandwidth / (limits.at(group.level) / record.threshold),
                           group.bandwidth < limits.at(group.level));
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
