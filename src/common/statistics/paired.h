#pragma once

#include "common/base/enum_words.h"
#include "common/statistics/interval.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace busbar {

/// Rounds after which a comparison may stop. Testing after both at kLookLevel keeps 5 % overall: Pocock's idea (1977),
/// whose 2.94 % hold for normal quantiles; with Student's of so few rounds they would be 5.3 % (4 million simulated).
inline constexpr std::array<int, 2> kLooks{4, 8};
inline constexpr double kLookLevel = 0.0275;

/// B's time over A's.
struct Ratio {
  double value = 1;
  Interval interval{1, 1};
  bool operator==(const Ratio&) const = default;
};

/// ln(b/a) per round, the input of the paired comparison. Throws on unequal numbers of rounds and on times not above 0.
std::vector<double> log_ratios(std::span<const double> a, std::span<const double> b);

/// Median of the Walsh averages (Hodges & Lehmann, 1963). Memory and time grow with the square of the values.
double hodges_lehmann(std::span<const double> values);

/// From one log ratio, ln(b/a), per round, of launches or of communicators created for it: exp of the mean with the
/// interval of Student's t. Null below 4 rounds. Rank tests would need ever more rounds for more cells; a round that is
/// many times slower makes the interval wide, and the answer undecided.
std::optional<Ratio> round_ratio(std::span<const double> log_ratios, double confidence = 0.95);

/// Two-sided p, by the same test, of "the ratio is within 1 -+ delta" (0: no difference); 1 below 4 rounds.
double round_p(std::span<const double> log_ratios, double delta = 0);

/// Holm's step-down adjustment, in the order given.
std::vector<double> holm(std::span<const double> p);

/// P(b < a) + P(b = a) / 2 over all pairs (Vargha-Delaney's A12 for "B is faster").
double probability_faster(std::span<const double> a, std::span<const double> b);

enum class Difference : std::uint8_t { faster, slower, equivalent, undecided };
constexpr EnumWords<4> words_of(Difference) { return {"faster", "slower", "equivalent", "undecided"}; }
static_assert(name(Difference::undecided) == "undecided");

/// B relative to A: faster or slower if the whole interval is outside the band of +-delta, equivalent if it is inside.
Difference judge(const Interval& ratio, double delta);

/// Successive elimination among many variants, at one of kLooks: returns those of `active` (indices into `times`) that
/// may still be the best. `times`: per variant one time per round, equally many for each active one and for the
/// baseline. Drops a variant if the lower bound of its ratio to the currently best is above 1 + delta, at a confidence
/// corrected for their number; never the baseline, index 0. Throws as log_ratios does.
std::vector<std::size_t> survivors(std::span<const std::vector<double>> times, std::span<const std::size_t> active,
                                   double delta);

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
