#pragma once

#include "common/statistics/paired.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace busbar {

/// What a comparison said at one size: B against A.
struct SizedVerdict {
  std::uint64_t nbytes = 0;
  Difference difference = Difference::undecided;
  Ratio ratio;
};

/// Neighbouring decided sizes at which the winner changes, ties and undecided ones between them allowed.
struct Crossover {
  std::uint64_t low = 0;   ///< last size at which the former winner is confident
  std::uint64_t high = 0;  ///< first size at which the other is
  bool b_wins_above = false;
  double regret = 0;  ///< most that a wrong choice at a size measured there may cost, as a share of the faster's time
};

/// All of them, sizes rising; no monotone order is assumed. The regret is the largest bound at the sizes measured, both
/// ends included.
std::vector<Crossover> crossovers(std::span<const SizedVerdict> sizes);

/// time = latency + bytes / bandwidth, fitted to relative errors (each size counts alike, whatever its time).
struct HockneyFit {
  double latency_s = 0;
  double bandwidth = 0;             ///< [B/s]; infinity where time does not grow
  double worst_relative_error = 0;  ///< of the fit at any size: how far to trust it
};
struct SizedTime {
  std::uint64_t nbytes = 0;
  double time_s = 0;
};
std::optional<HockneyFit> fit_hockney(std::span<const SizedTime> times);

}  // namespace busbar
