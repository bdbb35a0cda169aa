#include "common/watch/limits.h"

#include <algorithm>

namespace busbar {

double start_limit_s(int nprocs, double asked_s) {
  if (asked_s == kAutomaticLimit) return std::max(120.0, 30.0 + 0.1 * nprocs);
  return asked_s == 0 ? 0 : std::max(30.0, asked_s);
}

double step_limit_s(double expected_s) { return std::max(30.0, 20.0 * expected_s); }

double slow_limit_s(double limit_s, double step_age_s, double done, double total) {
  const double projected_s = done > 0 && total >= done ? step_age_s * total / done : 0;
  return std::max(10 * limit_s, 2 * projected_s);
}

double ExpectedTime::operation_s(double nbytes) const { return std::max(floor_s_, nbytes * seconds_per_byte_); }

void ExpectedTime::measured(double nbytes, double time_s) {
  if (time_s <= 0) return;
  floor_s_ = time_s;
  // What a small message takes says nothing about bytes: scaled from there, a large one would get a day.
  constexpr double kTells = 1 << 20;
  if (nbytes >= kTells) seconds_per_byte_ = time_s / nbytes;
}

}  // namespace busbar
