#include "common/statistics/paired.h"

#include "common/statistics/distributions.h"
#include "common/statistics/finite.h"

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

double look_z(std::size_t comparisons) {
  if (comparisons <= 1) return kLookZ;
  const double alpha = normal_two_sided_p(kLookZ) / static_cast<double>(comparisons);
  return normal_quantile(1 - alpha / 2);
}

std::optional<Ratio> paired_ratio(std::span<const double> log_ratios, double z) {
  require_finite(log_ratios, "ratio");
  const auto rounds = static_cast<double>(log_ratios.size());
  const double cut = rounds * (rounds + 1) / 4 - z * std::sqrt(rounds * (rounds + 1) * (2 * rounds + 1) / 24);
  if (log_ratios.empty() || cut < 0) return std::nullopt;
  std::vector<double> walsh;
  walsh.reserve(log_ratios.size() * (log_ratios.size() + 1) / 2);
  for (std::size_t i = 0; i < log_ratios.size(); ++i) {
    for (std::size_t j = i; j < log_ratios.size(); ++j) walsh.push_back(std::midpoint(log_ratios[i], log_ratios[j]));
  }
  const double estimate = median(walsh);
  const auto from_low = walsh.begin() + static_cast<std::ptrdiff_t>(cut);
  const auto from_high = walsh.end() - 1 - static_cast<std::ptrdiff_t>(cut);
  std::nth_element(walsh.begin(), from_low, walsh.end());  // selections: sorting would take most of a look
  const double low = *from_low;
  std::nth_element(walsh.begin(), from_high, walsh.end());
  return Ratio{std::exp(estimate), {std::exp(low), std::exp(*from_high)}};
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
    // Never below a smaller p's: else a hypothesis could be rejected after a likelier one was kept.
    largest = std::max(largest, p[order[i]] * static_cast<double>(order.size() - i));
    adjusted[order[i]] = std::min(1.0, largest);
  }
  return adjusted;
}

std::vector<std::size_t> survivors(std::span<const std::vector<double>> times, std::span<const std::size_t> active,
                                   double delta) {
  if (active.empty()) return {};
  const auto mid_log_ratio = [&](std::size_t variant) {
    const auto ratio = paired_ratio(log_ratios(times[0], times[variant]), 0);
    return ratio ? ratio->value : 1.0;
  };
  // Against the baseline round by round, so that a slow minute that hit all of them chooses nobody.
  std::size_t best = 0;
  double best_ratio = 1;
  for (std::size_t variant : active) {
    const double ratio = variant == 0 ? 1 : mid_log_ratio(variant);
    if (ratio < best_ratio) {
      best = variant;
      best_ratio = ratio;
    }
  }
  const double z = look_z(active.size() - 1);
  std::vector<std::size_t> kept;
  for (std::size_t variant : active) {
    const bool judged = variant != 0 && variant != best;
    const auto ratio = judged ? paired_ratio(log_ratios(times[best], times[variant]), z) : std::nullopt;
    if (!ratio || ratio->interval.low <= 1 + delta) kept.push_back(variant);
  }
  return kept;
}

}  // namespace busbar
