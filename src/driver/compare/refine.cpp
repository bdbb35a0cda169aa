#include "driver/compare/refine.h"

#include "driver/compare/verdicts.h"

#include <algorithm>
#include <cmath>

namespace busbar {
namespace {

constexpr double kNarrow = 1.10;  // of the ends of a bracket
constexpr double kNear = 1.03;

bool measured_near(const Comparison& comparison, double nbytes) {
  return std::any_of(comparison.cases.begin(), comparison.cases.end(), [&](const ComparedCase& c) {
    const auto at = static_cast<double>(c.row_case.nbytes);
    return at < nbytes * kNear && nbytes < at * kNear;
  });
}

}  // namespace

std::optional<std::uint64_t> next_size_between(const Comparison& comparison) {
  for (const NamedCrossover& found : named_crossovers(comparison)) {
    const auto low = static_cast<double>(found.crossover.low);
    const auto high = static_cast<double>(found.crossover.high);
    if (low <= 0 || high / low <= kNarrow) continue;
    const double middle = std::sqrt(low * high);
    if (!measured_near(comparison, middle)) return static_cast<std::uint64_t>(std::lround(middle));
  }
  return std::nullopt;
}

bool is_new(const Comparison& comparison, std::uint64_t nbytes) {
  return std::none_of(comparison.cases.begin(), comparison.cases.end(),
                      [&](const ComparedCase& c) { return c.row_case.nbytes == nbytes; });
}

}  // namespace busbar
