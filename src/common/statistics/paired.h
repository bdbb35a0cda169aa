#pragma once

#include "common/statistics/interval.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace busbar {

/// Rounds after which a comparison may stop. Looking at each with z = 2.289 keeps 5 % overall (Pocock).
inline constexpr std::array<int, 3> kLooks{15, 30, 60};
inline constexpr double kLookZ = 2.289;

/// B's time over A's.
struct Ratio {
  double value = 1;
  Interval interval{1, 1};
  bool operator==(const Ratio&) const = default;
};

/// From one log ratio per round, ln(b/a): exp of the Hodges-Lehmann estimate (median of the Walsh averages), with the
/// interval of the signed-rank test at the normal quantile `z`. Nothing where there are too few rounds for it.
std::optional<Ratio> paired_ratio(std::span<const double> log_ratios, double z = kLookZ);

/// Two-sided p of the Wilcoxon signed-rank test (zeros dropped, ties corrected; exact up to 25 values without ties).
double signed_rank_p(std::span<const double> differences);

/// Holm's step-down adjustment, in the order given.
std::vector<double> holm(std::span<const double> p);

/// P(b < a) + P(b = a) / 2 over all pairs (Vargha-Delaney's A12 for "B is faster").
double probability_faster(std::span<const double> a, std::span<const double> b);

enum class Difference : std::uint8_t { faster, slower, equivalent, undecided };

/// Of B against A: faster or slower when the whole interval is beyond the band of +-delta, equivalent when it is
/// inside.
Difference judge(const Interval& ratio, double delta);

/// Two independent groups, one number per launch: two-sided Mann-Whitney p (exact up to 20 + 20 without ties).
double mann_whitney_p(std::span<const double> a, std::span<const double> b);

/// exp of the Hodges-Lehmann shift of ln(b) against ln(a), with its interval; nothing below 4 + 4.
std::optional<Ratio> unpaired_ratio(std::span<const double> a, std::span<const double> b, double confidence = 0.95);

}  // namespace busbar
