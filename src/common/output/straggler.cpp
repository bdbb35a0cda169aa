#include "common/output/straggler.h"

#include <algorithm>
#include <cmath>

namespace busbar {

static constexpr std::uint64_t kFewestSamples = 20;
static constexpr double kBarrierSkew = 1e-6;  // [s]; 0.1 to 0.25 us were measured between two ranks of a host
static constexpr double kWorthNaming = 0.01;  // of the operation's time

std::optional<Straggler> find_straggler(const CellStats& cell) {
  if (cell.shared_cores || cell.ranks.size() < 2 || !cell.skew_median_s || cell.samples < kFewestSamples)
    return std::nullopt;
  const auto suspect = std::max_element(cell.ranks.begin(), cell.ranks.end(),
                                        [](const auto& a, const auto& b) { return a.last_share < b.last_share; });
  double next_late_s = 0;
  for (auto rank = cell.ranks.begin(); rank != cell.ranks.end(); ++rank) {
    if (rank != suspect) next_late_s = std::max(next_late_s, rank->late_median_s);
  }

  const double chance = 1 / static_cast<double>(cell.ranks.size());
  const double by_chance = 4 * std::sqrt(chance * (1 - chance) / static_cast<double>(cell.samples));
  if (suspect->last_share <= chance + std::max((1 - chance) / 2, by_chance)) return std::nullopt;
  const double noise_s = std::max({kBarrierSkew, 2 * cell.clock_error_s, kWorthNaming * cell.median_s});
  const double late_s = suspect->late_median_s;
  if (!(late_s > 3 * next_late_s && late_s - next_late_s > noise_s)) return std::nullopt;
  return Straggler{suspect->rank, suspect->host, suspect->last_share, late_s};
}

}  // namespace busbar
