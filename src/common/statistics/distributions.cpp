#include "common/statistics/distributions.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace busbar {
namespace {

double binomial_probability(double n, double q, double k) {
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(q) +
                  (n - k) * std::log1p(-q));
}

/// P(|T| <= |t|).
double within(double t, int degrees) {
  const double angle = std::atan(std::fabs(t) / std::sqrt(degrees));
  const double cosine = std::cos(angle);
  const bool odd = degrees % 2 == 1;
  // The series of powers of the cosine: odd ones from cos, even ones from 1.
  double term = odd ? cosine : 1;
  double sum = degrees == 1 ? 0 : term;
  for (int power = odd ? 3 : 2; power <= degrees - 2; power += 2) {
    term *= cosine * cosine * (power - 1) / power;
    sum += term;
  }
  if (!odd) return std::sin(angle) * sum;
  return 2 / std::numbers::pi * (angle + std::sin(angle) * sum);
}

}  // namespace

double normal_two_sided_p(double z) { return std::erfc(std::fabs(z) / std::sqrt(2.0)); }

double normal_quantile(double p) {
  // Bisection: a few microseconds, and no table of somebody's coefficients. 40 deviations are beyond any double
  // below 1.
  double low = -40;
  double high = 40;
  for (int i = 0; i < 64; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

double binomial_cdf(std::size_t n, double q, std::ptrdiff_t k) {
  if (k < 0) return 0;
  if (static_cast<std::size_t>(k) >= n) return 1;
  // From k away from the mean terms fall geometrically, so that the sum takes some deviations' worth of terms and none
  // of them underflows before it no longer matters; (1-q)^n would, at a thousand trials.
  const auto trials = static_cast<double>(n);
  const bool below_mean = static_cast<double>(k) < trials * q;
  double at = static_cast<double>(below_mean ? k : k + 1);
  double term = binomial_probability(trials, q, at);
  double sum = 0;
  while (term > sum * 1e-17) {
    sum += term;
    if (at == (below_mean ? 0 : trials)) break;
    if (below_mean) {
      term *= at / (trials - at + 1) * ((1 - q) / q);
      at -= 1;
    } else {
      term *= (trials - at) / (at + 1) * (q / (1 - q));
      at += 1;
    }
  }
  return std::clamp(below_mean ? sum : 1 - sum, 0.0, 1.0);
}

double lower_tail(const std::vector<double>& ways, double value) {
  if (value < 0) return 0;
  const auto count = static_cast<std::ptrdiff_t>(std::min(std::floor(value) + 1, static_cast<double>(ways.size())));
  return std::accumulate(ways.begin(), ways.begin() + count, 0.0) / std::accumulate(ways.begin(), ways.end(), 0.0);
}

std::vector<double> mann_whitney_ways(std::size_t n, std::size_t m) {
  // U of the first group is its rank sum less n(n+1)/2: choose n of the ranks 1 .. n+m. A row per number chosen.
  std::vector<std::vector<double>> chosen(n + 1, std::vector<double>(n * (n + m) + 1));
  chosen[0][0] = 1;
  for (std::size_t rank = 1; rank <= n + m; ++rank) {
    for (std::size_t count = std::min(rank, n); count >= 1; --count) {
      for (std::size_t sum = rank; sum < chosen[count].size(); ++sum) {
        chosen[count][sum] += chosen[count - 1][sum - rank];
      }
    }
  }
  const auto least = static_cast<std::ptrdiff_t>(n * (n + 1) / 2);
  const auto most = least + static_cast<std::ptrdiff_t>(n * m);
  return {chosen[n].begin() + least, chosen[n].begin() + most + 1};
}

double student_t_upper(double t, int degrees) {
  const double half = std::max(0.0, 1 - within(t, degrees)) / 2;
  return t > 0 ? half : 1 - half;
}

double student_t_quantile(double p, int degrees) {
  double low = -1e9;
  double high = 1e9;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (1 - student_t_upper(middle, degrees) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace busbar
