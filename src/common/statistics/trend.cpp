#include "common/statistics/trend.h"

#include "common/statistics/interval.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace busbar {
namespace {

constexpr std::size_t kLeastSeries = 8;
constexpr std::size_t kLeastEarlier = 5;
constexpr double kMemoryStep = 0.05;  // step of the grid of correlations, from 0 to 0.95
constexpr int kTriedMemories = 20;
constexpr double kLeastVariance = 1e-12;  // of logarithms: times are written with seven digits

/// For a statistic of `n` values: the bounds that it exceeds by chance in 10, 1 and 0.1 % of series, at the worst of
/// correlations 0, 0.5, 0.8 and 0.9; 2 500 to 60 000 series each.
struct Tail {
  double n;
  std::array<double, 3> quantiles;
};
constexpr std::array kTrendTail{Tail{8, {3.1, 5.9, 10.0}}, Tail{10, {3.0, 5.5, 8.6}}, Tail{14, {2.9, 5.4, 7.6}},
                                Tail{20, {2.8, 5.5, 7.9}}, Tail{40, {2.4, 5.0, 7.5}}, Tail{100, {1.9, 4.5, 6.9}}};
constexpr std::array kLevelTail{Tail{8, {4.1, 6.8, 9.8}},   Tail{10, {4.4, 7.1, 9.8}},  Tail{14, {4.7, 7.3, 9.9}},
                                Tail{20, {5.0, 7.6, 10.1}}, Tail{40, {5.4, 8.1, 10.6}}, Tail{100, {6.0, 8.5, 11.2}}};
constexpr std::array kLastTail{Tail{6, {2.9, 7.8, 13.4}}, Tail{7, {2.4, 6.2, 11.0}}, Tail{8, {2.3, 6.0, 10.8}},
                               Tail{10, {2.0, 5.0, 9.0}}, Tail{14, {1.8, 4.5, 7.6}}, Tail{20, {1.7, 4.1, 6.9}},
                               Tail{40, {1.6, 3.9, 6.4}}, Tail{100, {1.5, 3.7, 6.0}}};

/// The p of a statistic: its logarithm is linear between the table's quantiles, and the table is linear in ln(n).
double tail_p(std::span<const Tail> tail, std::size_t n, double statistic) {
  const double at = std::clamp(static_cast<double>(n), tail.front().n, tail.back().n);
  std::size_t i = 1;
  while (i + 1 < tail.size() && tail[i].n < at) ++i;
  const double share = std::log(at / tail[i - 1].n) / std::log(tail[i].n / tail[i - 1].n);
  const auto quantile = [&](std::size_t k) {
    return tail[i - 1].quantiles[k] + share * (tail[i].quantiles[k] - tail[i - 1].quantiles[k]);
  };
  double decades = statistic / quantile(0);
  for (std::size_t k = 1; k < 3 && decades > static_cast<double>(k); ++k)
    decades = static_cast<double>(k) + (statistic - quantile(k - 1)) / (quantile(k) - quantile(k - 1));
  return std::pow(10, -std::max(decades, 0.0));
}

/// Moves values far from the line of Theil and Sen close to it: one troubled run is no trend, and must not hide one.
std::vector<double> without_spikes(std::span<const double> series) {
  std::vector<double> at(series.size());
  std::iota(at.begin(), at.end(), 0.0);
  const double slope = theil_sen_slope(at, series);
  std::vector<double> rest(series.begin(), series.end());
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= slope * at[i];
  const double level = median(rest);
  std::vector<double> deviations;
  for (const double value : rest) deviations.push_back(std::fabs(value - level));
  const double reach = 4 * 1.4826 * median(deviations);
  if (reach <= 0) return {series.begin(), series.end()};
  for (std::size_t i = 0; i < rest.size(); ++i)
    rest[i] = level + slope * at[i] + std::clamp(rest[i] - level, -reach, reach);
  return rest;
}

/// A series less its level, with the correlation of neighbors removed (Prais and Winsten 1954), and how much of it a
/// change explains.
class Whitened {
 public:
  Whitened(std::span<const double> series, double correlation)
      : correlation_(correlation),
        first_(std::sqrt(1 - correlation * correlation)),
        step_(1 - correlation),
        values_(series.size()) {
    const std::size_t n = series.size();
    ones_ = first_ * first_ + static_cast<double>(n - 1) * step_ * step_;
    double sum = 0;
    for (std::size_t t = 0; t < n; ++t) {
      values_[t] = t == 0 ? first_ * series[0] : series[t] - correlation * series[t - 1];
      sum += one(t) * values_[t];
    }
    for (std::size_t t = 0; t < n; ++t) values_[t] -= one(t) * sum / ones_;
    after_.resize(n + 1);
    for (std::size_t t = n; t-- > 0;) after_[t] = after_[t + 1] + values_[t];
    for (const double value : values_) squares_ += value * value;
  }

  /// Logarithm of the likelihood, the level integrated out; `explained`: the part of the squares explained by a change.
  double likelihood(double explained) const {
    const auto n = static_cast<double>(values_.size());
    return -(n - 1) / 2 * std::log(std::max(squares_ - explained, n * kLeastVariance)) + std::log(first_) -
           std::log(ones_) / 2;
  }

  double by_slope() const {
    const double middle = static_cast<double>(values_.size() - 1) / 2;
    double zz = 0;
    double zo = 0;
    double zw = 0;
    for (std::size_t t = 0; t < values_.size(); ++t) {
      const double x = static_cast<double>(t) - middle;
      const double z = t == 0 ? first_ * x : x - correlation_ * (x - 1);
      zz += z * z;
      zo += z * one(t);
      zw += z * values_[t];
    }
    return zw * zw / (zz - zo * zo / ones_);
  }

  /// Part explained by another level from `at` on; above 0.
  double by_step(std::size_t at) const {
    const auto later = static_cast<double>(values_.size() - 1 - at);
    const double zo = step_ * (1 + later * step_);
    const double zw = values_[at] + step_ * after_[at + 1];
    return zw * zw / (1 + later * step_ * step_ - zo * zo / ones_);
  }

 private:
  double one(std::size_t t) const { return t == 0 ? first_ : step_; }

  double correlation_;
  double first_;
  double step_;
  double ones_ = 0;  // squares of a level of 1
  std::vector<double> values_;
  std::vector<double> after_;  // sums from each to the end
  double squares_ = 0;
};

/// A change of a series: how much likelier the series becomes with it, as a logarithm, each with the best correlation.
struct LikeliestChange {
  double statistic = 0;
  std::size_t at = 0;
};

/// The likeliest change from `first` to `last`; `explained`: the part of a whitened series explained by one of them.
template <class Explained>
LikeliestChange likeliest_change(std::span<const double> series, std::size_t first, std::size_t last,
                                 Explained explained) {
  double without = -INFINITY;
  double with = -INFINITY;
  LikeliestChange best;
  for (int i = 0; i < kTriedMemories; ++i) {
    const Whitened whitened(series, kMemoryStep * i);
    without = std::max(without, whitened.likelihood(0));
    for (std::size_t at = first; at <= last; ++at) {
      const double likelihood = whitened.likelihood(explained(whitened, at));
      if (likelihood <= with) continue;
      with = likelihood;
      best.at = at;
    }
  }
  best.statistic = with - without;
  return best;
}

LikeliestChange likeliest_step(std::span<const double> series, std::size_t first, std::size_t last) {
  return likeliest_change(series, first, last, [](const Whitened& w, std::size_t at) { return w.by_step(at); });
}

}  // namespace

double theil_sen_slope(std::span<const double> x, std::span<const double> y) {
  require_finite(x, "slope");
  require_finite(y, "slope");
  std::vector<double> slopes;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = i + 1; j < x.size(); ++j)
      if (x[i] != x[j]) slopes.push_back((y[j] - y[i]) / (x[j] - x[i]));
  }
  return median(slopes);
}

double trend_p(std::span<const double> series, std::size_t most) {
  require_finite(series, "trend");
  if (series.size() < kLeastSeries) return 1;
  std::vector<double> blocks;
  const std::size_t count = std::min(series.size(), most);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t from = i * series.size() / count;
    blocks.push_back(median(series.subspan(from, (i + 1) * series.size() / count - from)));
  }
  const auto by_slope = [](const Whitened& whitened, std::size_t) { return whitened.by_slope(); };
  return tail_p(kTrendTail, count, likeliest_change(without_spikes(blocks), 0, 0, by_slope).statistic);
}

std::optional<LevelChange> level_change(std::span<const double> series, double alpha) {
  require_finite(series, "change of level");
  const std::size_t n = series.size();
  if (n < kLeastSeries) return std::nullopt;
  const LikeliestChange step = likeliest_step(without_spikes(series), 2, n - 2);
  const double p = tail_p(kLevelTail, n, step.statistic);
  if (p > alpha) return std::nullopt;
  return LevelChange{step.at, median(series.subspan(0, step.at)), median(series.subspan(step.at)), p};
}

double last_value_p(std::span<const double> series) {
  require_finite(series, "last value");
  const std::size_t n = series.size();
  if (n < kLeastEarlier + 1) return 1;
  std::vector<double> values = without_spikes(series.first(n - 1));
  values.push_back(series.back());
  return tail_p(kLastTail, n, likeliest_step(values, n - 1, n - 1).statistic);
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

std::vector<std::size_t> bursts(std::span<const double> times_s, double span_s) {
  std::vector<std::size_t> result;
  double began_s = 0;
  for (const double time_s : times_s) {
    const bool fresh = result.empty() || time_s - began_s >= span_s;
    result.push_back(result.empty() ? 0 : result.back() + (fresh ? 1 : 0));
    if (fresh) began_s = time_s;
  }
  return result;
}

}  // namespace busbar
