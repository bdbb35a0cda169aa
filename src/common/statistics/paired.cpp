#include "common/statistics/paired.h"

#include "common/statistics/distributions.h"

#include <algorithm>
#include <cmath>
#include <limits>
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
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = i; j < values.size(); ++j) walsh.push_back(std::midpoint(values[i], values[j]));
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

bool decided(const SizedVerdict& size) {
  return size.difference == Difference::faster || size.difference == Difference::slower;
}

/// The most that the slower of the two may cost over the faster one.
double worst_choice(const Interval& ratio) {
  return std::max(ratio.high - 1, ratio.low > 0 ? 1 / ratio.low - 1 : std::numeric_limits<double>::infinity());
}

/// From one decided size to the next, both included: just above the lower one a choice costs what it costs there.
double regret_between(std::span<const SizedVerdict> ends) {
  double regret = 0;
  for (const SizedVerdict& size : ends) regret = std::max(regret, worst_choice(size.ratio.interval));
  return regret;
}

struct Line {
  double latency_s = 0;
  double per_byte_s = 0;
};

double relative_error(const Line& line, const SizedTime& at) {
  return (line.latency_s + line.per_byte_s * static_cast<double>(at.nbytes)) / at.time_s - 1;
}

/// Least squares of latency / t + bytes * per_byte / t = 1: linear, so no iteration that may not converge. A negative
/// latency or bandwidth is meaningless; then the best fit sets that parameter to 0.
Line least_squares(std::span<const SizedTime> times) {
  double uu = 0, uv = 0, vv = 0, u_sum = 0, v_sum = 0;
  const double scale = static_cast<double>(times.back().nbytes);  // else columns differ by ten orders of magnitude
  for (const SizedTime& at : times) {
    const double u = times.front().time_s / at.time_s;
    const double v = u * (static_cast<double>(at.nbytes) / scale);
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u_sum += u;
    v_sum += v;
  }
  const double determinant = uu * vv - uv * uv;
  double latency = (u_sum * vv - v_sum * uv) / determinant;
  double slope = (v_sum * uu - u_sum * uv) / determinant;
  if (!(latency >= 0)) {
    latency = 0;
    slope = v_sum / vv;
  } else if (!(slope >= 0)) {
    latency = u_sum / uu;
    slope = 0;
  }
  return {latency * times.front().time_s, slope * times.front().time_s / scale};
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

std::vector<Crossover> crossovers(std::span<const SizedVerdict> sizes) {
  std::vector<Crossover> found;
  std::optional<std::size_t> former;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!decided(sizes[i])) continue;
    if (former && sizes[*former].difference != sizes[i].difference) {
      found.push_back({.low = sizes[*former].nbytes,
                       .high = sizes[i].nbytes,
                       .b_wins_above = sizes[i].difference == Difference::faster,
                       .regret = regret_between(sizes.subspan(*former, i - *former + 1))});
    }
    former = i;
  }
  return found;
}

std::optional<HockneyFit> fit_hockney(std::span<const SizedTime> times) {
  for (const SizedTime& at : times)
    if (!std::isfinite(at.time_s) || at.time_s <= 0) throw Error(ExitCode::internal, "fit of a time not above 0");
  std::vector<SizedTime> rising(times.begin(), times.end());
  std::sort(rising.begin(), rising.end(), [](const auto& x, const auto& y) { return x.nbytes < y.nbytes; });
  if (rising.empty() || rising.front().nbytes == rising.back().nbytes) return std::nullopt;
  const Line line = least_squares(rising);
  HockneyFit fit;
  fit.latency_s = line.latency_s;
  fit.bandwidth = line.per_byte_s > 0 ? 1 / line.per_byte_s : std::numeric_limits<double>::infinity();
  for (const SizedTime& at : rising)
    fit.worst_relative_error = std::max(fit.worst_relative_error, std::fabs(relative_error(line, at)));
  return fit;
}

}  // namespace busbar
