#include "common/statistics/curves.h"

#include "common/base/error.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace busbar {

namespace {

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
  for (const SizedTime& at : times) {
    if (!std::isfinite(at.time_s) || at.time_s <= 0) throw Error(ExitCode::internal, "fit of a time not above 0");
  }
  std::vector<SizedTime> rising(times.begin(), times.end());
  std::sort(rising.begin(), rising.end(), [](const auto& x, const auto& y) { return x.nbytes < y.nbytes; });
  if (rising.empty() || rising.front().nbytes == rising.back().nbytes) return std::nullopt;
  const Line line = least_squares(rising);
  HockneyFit fit;
  fit.latency_s = line.latency_s;
  fit.bandwidth = line.per_byte_s > 0 ? 1 / line.per_byte_s : std::numeric_limits<double>::infinity();
  for (const SizedTime& at : rising) {
    fit.worst_relative_error = std::max(fit.worst_relative_error, std::fabs(relative_error(line, at)));
  }
  return fit;
}

}  // namespace busbar
