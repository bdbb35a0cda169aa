#include "common/statistics/trend.h"

#include "common/statistics/finite.h"
#include "common/statistics/interval.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace busbar {
namespace {

constexpr std::size_t kLeastSeries = 8;
constexpr std::size_t kLeastEarlier = 5;

}  // namespace

double theil_sen_slope(std::span<const double> x, std::span<const double> y) {
  require_finite(x, "slope");
  require_finite(y, "slope");
  std::vector<double> slopes;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = i + 1; j < x.size(); ++j) {
      if (x[i] != x[j]) slopes.push_back((y[j] - y[i]) / (x[j] - x[i]));
    }
  }
  return median(slopes);
}

std::optional<LevelChange> level_change(std::span<const double> series, double alpha) {
  require_finite(series, "change of level");
  const std::size_t n = series.size();
  if (n < kLeastSeries) return std::nullopt;
  // U(t) = sum over i <= t < j of sign(x_i - x_j) grows by the sum of sign(x_t - x_j) over all j.
  std::int64_t u = 0;
  std::int64_t largest = 0;
  std::size_t at = 0;
  for (std::size_t t = 0; t + 1 < n; ++t) {
    for (const double other : series) u += (series[t] > other) - (series[t] < other);
    if (std::abs(u) <= std::abs(largest)) continue;
    largest = u;
    at = t + 1;
  }
  const auto k = static_cast<double>(std::abs(largest));
  const auto size = static_cast<double>(n);
  const double p = std::min(1.0, 2 * std::exp(-6 * k * k / (size * size * size + size * size)));
  if (at == 0 || p > alpha) return std::nullopt;
  return LevelChange{at, median(series.subspan(0, at)), median(series.subspan(at)), p};
}

std::optional<double> robust_distance(std::span<const double> earlier, double value, double least_deviation) {
  require_finite(earlier, "distance");
  if (earlier.size() < kLeastEarlier) return std::nullopt;
  const double middle = median(earlier);
  std::vector<double> deviations;
  for (const double e : earlier) deviations.push_back(std::fabs(e - middle));
  const double deviation = std::max(1.4826 * median(deviations), least_deviation);
  if (deviation <= 0) return value == middle ? 0 : std::copysign(INFINITY, value - middle);
  return (value - middle) / deviation;
}

}  // namespace busbar
