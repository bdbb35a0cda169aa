#include "driver/locate/soak_watch.h"

#include "common/statistics/distributions.h"
#include "driver/locate/score_pairs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

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

}  // namespace busbar
