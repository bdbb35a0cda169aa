#include "common/statistics/distributions.h"

#include <cmath>
#include <limits>
#include <utility>

// In place of distributions.cpp, in a build without Boost.Math: slower, and as exact as 1e-10 of the value.

namespace busbar {
namespace {

/// The continued fraction of the incomplete beta function, by Lentz's method (DLMF 8.17.22, 3.10(iii)).
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300, kExact = 1e-15;
  const auto kept = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  const double most_steps = 100 + 20 * std::sqrt(a + b);
  double c = 1, d = 1 / kept(1 - (a + b) * x / (a + 1)), value = d;
  for (double m = 1; m < most_steps; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double step = 1;
    for (const double term : {even, odd}) {
      d = 1 / kept(1 + term * d);
      c = kept(1 + term / c);
      step = c * d;
      value *= step;
    }
    if (std::abs(step - 1) < kExact) break;
  }
  return value;
}

/// The regularized incomplete beta function; `y` is 1 - x (DLMF 8.17.2, 8.17.4).
double beta(double x, double y, double a, double b) {
  if (!(x > 0)) return x == 0 ? 0 : x;
  if (!(y > 0)) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log(y));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(x, a, b) / a : 1 - front * beta_fraction(y, b, a) / b;
}

/// The x >= 0 at which a function that falls from 1/2 to 0 is `p`, by halving.
template <class Upper>
double where_falls_to(double p, Upper upper) {
  if (!(p > 0)) return p == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  double low = 0, high = 1;
  while (upper(high) > p && high < 1e300) low = std::exchange(high, high * 2);
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    (upper(middle) > p ? low : high) = middle;
  }
  return high;
}

/// The quantile of a distribution that is symmetric about 0.
template <class Upper>
double symmetric_quantile(double p, Upper upper) {
  if (p == 0.5) return 0;
  return p < 0.5 ? -where_falls_to(p, upper) : where_falls_to(1 - p, upper);
}

}  // namespace

double normal_quantile(double p) {
  return symmetric_quantile(p, [](double z) { return std::erfc(z / std::sqrt(2.0)) / 2; });
}

double binomial_cdf(std::size_t n, double q, std::ptrdiff_t k) {
  if (k < 0) return 0;
  if (static_cast<std::size_t>(k) >= n) return 1;
  return beta(1 - q, q, static_cast<double>(n) - static_cast<double>(k), static_cast<double>(k) + 1);
}

double student_t_upper(double t, int degrees) {
  if (t < 0) return 1 - student_t_upper(-t, degrees);
  const double v = degrees, x = std::isinf(t) ? 0 : v / (v + t * t);
  return beta(x, std::isinf(t) ? 1 : t * t / (v + t * t), v / 2, 0.5) / 2;
}

double student_t_quantile(double p, int degrees) {
  return symmetric_quantile(p, [&](double t) { return student_t_upper(t, degrees); });
}

}  // namespace busbar
