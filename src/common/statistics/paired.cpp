#include "common/statistics/paired.h"

#include "common/statistics/distributions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace busbar {

std::vector<double> log_ratios(std::span<const double> a, std::span<const double> b) {
  require_positive(a, "ratio");
  require_positive(b, "ratio");
  if (a.size() != b.size()) throw Error(ExitCode::internal, "paired comparison of unequal numbers of rounds");
  std::vector<double> logs(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) logs[i] = std::log(b[i] / a[i]);
  return logs;
}

double hodges_lehmann(std::span<const double> values) {
  require_finite(values, "middle");
  std::vector<double> walsh;
  walsh.reserve(values.size() * (values.size() + 1) / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i; j < values.size(); ++j) walsh.push_back(std::midpoint(values[i], values[j]));
  }
  return median(walsh);
}

Difference judge(const Interval& ratio, double delta) {
  if (ratio.high < 1 - delta) return Difference::faster;
  if (ratio.low > 1 + delta) return Difference::slower;
  if (ratio.low >= 1 - delta && ratio.high <= 1 + delta) return Difference::equivalent;
  return Difference::undecided;
}

std::vector<double> holm(std::span<const double> p) {
  require_finite(p, "adjustment");
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return p[x] < p[y]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    // Never below a smaller p's: otherwise a hypothesis could be rejected after a likelier one was kept.
    largest = std::max(largest, p[order[i]] * static_cast<double>(order.size() - i));
    adjusted[order[i]] = std::min(1.0, largest);
  }
  return adjusted;
}

std::vector<std::size_t> survivors(std::span<const std::vector<double>> times, std::span<const std::size_t> active,
                                   double delta) {
  if (active.empty()) return {};
  // Relative to the baseline round by round, so that a slow minute that hit all of them favors nobody.
  std::size_t best = 0;
  double best_ratio = 1;
  for (std::size_t variant : active) {
    const auto ratio = round_ratio(log_ratios(times[0], times[variant]));
    if (ratio && ratio->value < best_ratio) {
      best = variant;
      best_ratio = ratio->value;
    }
  }
  const double level = kLookLevel / static_cast<double>(std::max<std::size_t>(active.size() - 1, 1));
  std::vector<std::size_t> kept;
  for (std::size_t variant : active) {
    const bool judged = variant != 0 && variant != best;
    const auto ratio = judged ? round_ratio(log_ratios(times[best], times[variant]), 1 - level) : std::nullopt;
    if (!ratio || ratio->interval.low <= 1 + delta) kept.push_back(variant);
  }
  return kept;
}

namespace {

/// How far a center is beyond the band, and the edge that it is beyond; null within it.
struct Beyond {
  double edge = 0;
  double by = 0;
};
std::optional<Beyond> beyond_band(double middle, double delta) {
  const double low = std::log1p(-delta);
  const double high = std::log1p(delta);
  if (middle > high) return Beyond{high, middle - high};
  if (middle < low) return Beyond{low, low - middle};
  return std::nullopt;
}

struct Mean {
  double value = 0;
  double error = 0;  ///< its standard deviation
};

std::optional<Mean> mean_of_rounds(std::span<const double> log_ratios) {
  require_finite(log_ratios, "ratio");
  if (log_ratios.size() < 4) return std::nullopt;
  const auto n = static_cast<double>(log_ratios.size());
  Mean mean{std::accumulate(log_ratios.begin(), log_ratios.end(), 0.0) / n, 0};
  for (const double value : log_ratios) mean.error += (value - mean.value) * (value - mean.value);
  mean.error = std::sqrt(mean.error / (n - 1) / n);
  return mean;
}

}  // namespace

std::optional<Ratio> round_ratio(std::span<const double> log_ratios, double confidence) {
  const auto mean = mean_of_rounds(log_ratios);
  if (!mean) return std::nullopt;
  const int degrees = static_cast<int>(log_ratios.size()) - 1;
  const double half = student_t_quantile((1 + confidence) / 2, degrees) * mean->error;
  return Ratio{std::exp(mean->value), {std::exp(mean->value - half), std::exp(mean->value + half)}};
}

double round_p(std::span<const double> log_ratios, double delta) {
  const auto mean = mean_of_rounds(log_ratios);
  const auto beyond = mean ? beyond_band(mean->value, delta) : std::nullopt;
  if (!beyond) return 1;
  if (mean->error <= 0) return 0;
  return std::min(1.0, 2 * student_t_upper(beyond->by / mean->error, static_cast<int>(log_ratios.size()) - 1));
}

double probability_faster(std::span<const double> a, std::span<const double> b) {
  require_finite(a, "probability");
  require_finite(b, "probability");
  if (a.empty() || b.empty()) return 0.5;
  std::vector<double> sorted(b.begin(), b.end());
  std::sort(sorted.begin(), sorted.end());
  double twice = 0;  // below a counts twice, equal to it once
  for (double value : a) {
    twice += static_cast<double>(std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
    twice += static_cast<double>(std::upper_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
  }
  return twice / 2 / (static_cast<double>(a.size()) * static_cast<double>(b.size()));
}

}  // namespace busbar
