#include "common/statistics/student_t.h"

#include <cmath>
#include <numbers>

namespace busbar {

/// P(|T| <= |t|).
static double within(double t, int degrees) {
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

double student_t_upper(double t, int degrees) {
  const double half = (1 - within(t, degrees)) / 2;
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
