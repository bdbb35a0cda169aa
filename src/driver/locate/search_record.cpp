#include "driver/locate/search_record.h"

#include "common/statistics/interval.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>

namespace busbar {
namespace {

/// Level by level below which bandwidth a group is slow.
std::map<int, double> slow_limits(const SearchRecord& record) {
  std::map<int, std::vector<double>> of_level;
  for (const GroupResult& group : record.groups) of_level[group.level].push_back(group.bandwidth);
  std::map<int, double> limits;
  for (auto& [level, values] : of_level) {
    std::sort(values.begin(), values.end(), std::greater<>());
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
    if (*std::max_element(values.begin(), values.end()) < record.threshold * normal) slow.push_back(rail);
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
    const bool part_is_slow =
        std::any_of(all.begin(), all.end(), [&, level = key.first, &units = key.second](auto& other) {
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
