#include "common/locate/search_record.h"

#include "common/statistics/interval.h"

#include <algorithm>
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

std::vector<std::vector<int>> slow_groups(const SearchRecord& record) {
  const std::map<int, double> limits = slow_limits(record);
  // A group is slow when it was so each time it ran.
  std::map<std::pair<int, std::vector<int>>, bool> slow;
  for (const GroupResult& group : record.groups) {
    const auto [entry, first] = slow.try_emplace({group.level, group.units}, true);
    entry->second = entry->second && group.bandwidth < limits.at(group.level);
  }
  std::vector<std::vector<int>> found;
  for (const auto& [key, is_slow] : slow) {
    if (!is_slow) continue;
    const auto& [level, units] = key;
    const bool part_is_slow = std::any_of(slow.begin(), slow.end(), [&, lvl = level, &all = units](const auto& other) {
      return other.second && other.first.first == lvl + 1 && other.first.second != all &&
             std::includes(all.begin(), all.end(), other.first.second.begin(), other.first.second.end());
    });
    if (!part_is_slow) found.push_back(units);
  }
  return found;
}

}  // namespace busbar
