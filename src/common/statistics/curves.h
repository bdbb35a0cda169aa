#pragma once

#include "common/statistics/paired.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace busbar {

/// The result of a comparison at one size: B relative to A.
struct SizedVerdict {
  std::uint64_t nbytes = 0;
  Difference difference = Difference::undecided;
  Ratio ratio;
};

/// Neighboring decided sizes at which the winner changes; ties and undecided sizes between them are allowed.
struct Crossover {
  std::uint64_t low = 0;   ///< last size at which the first winner is confident
  std::uint64_t high = 0;  ///< first size at which the other is
  bool b_wins_above = false;
  double regret = 0;  ///< the most that a wrong choice may cost at a measured size, as a share of the faster's time
};

/// All crossovers, sizes rising; assumes no monotone order. The regret is the largest bound at the measured sizes, both
/// ends included.
std::vector<Crossover> crossovers(std::span<const SizedVerdict> sizes);

/// time = latency + bytes / bandwidth, fitted to relative errors (each size has equal weight, whatever its time).
struct HockneyFit {
  double latency_s = 0;
  double bandwidth = 0;             ///< [B/s]; infinity if time does not grow
  double worst_relative_error = 0;  ///< the fit's worst at any size: how far to trust it
};
struct SizedTime {
  std::uint64_t nbytes = 0;
  double time_s = 0;
};
std::optional<HockneyFit> fit_hockney(std::span<const SizedTime> times);

}  // namespace busbar
