#pragma once

#include "driver/compare/comparison.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace busbar {

// From the rounds' times to what a comparison says. Pure: the same numbers give the same verdicts on every process.

/// What communicators of one job with the same settings differ by, each pair for as long as it lives: up to 25 ns of
/// 270 to 470 (`make experiments ARGS=aa`; where their memory lies, it seems). The band of indifference, delta, is
/// never narrower than this in one job; from 1.5 us on the usual 2 % are wider. [s]
inline constexpr double kSameSettingsDiffer = 30e-9;

/// b's time over a's, from the rounds that both ran; from unpaired launches where the comparison was between launches.
/// Nothing where there are too few.
std::optional<Ratio> ratio_between(const VariantCell& a, const VariantCell& b, bool between_launches,
                                   double z = kLookZ);

/// Fills median, ratio to the default, p, A12 and difference of every usable variant from its rounds.
void judge_rounds(ComparedCase& compared, double delta, bool between_launches = false);

/// The usable variants still in the race that are confidently slower than the fastest by more than delta, at a look's
/// level shared among the survivors (Bonferroni). Never the default: every ratio needs it.
std::vector<std::size_t> too_slow(const ComparedCase& compared, double delta);

/// Whether more rounds could change nothing: all survivors are told from the default, and from the fastest, or are
/// equivalent to them.
bool settled(const ComparedCase& compared, double delta);

/// The usable variants that are not confidently slower than the fastest by estimate, which is the first; the others in
/// the order of the variants.
std::vector<std::size_t> leaders(const ComparedCase& compared, double delta, bool between_launches);

/// After the last case: Holm's adjustment over all cells, in which a difference that does not survive becomes
/// undecided; fastest, winner and regret of each case.
void conclude(Comparison& comparison);

/// Where the lead passes from one variant to another: pairs of which the one is among the leaders below and confidently
/// faster there, and the other above. Sorted by size.
std::vector<NamedCrossover> named_crossovers(const Comparison& comparison);

/// One per variant; nothing where fewer than three sizes were measured.
std::vector<std::optional<HockneyFit>> hockney_fits(const Comparison& comparison);

/// Cells of variants (the default's left out) that were measured and could not be told from the default.
struct CellCounts {
  int measured = 0;
  int undecided = 0;
  int out_of_time = 0;  ///< of the undecided ones: in cases that the clock ended
  int not_possible = 0;
  int wrong = 0;  ///< the default included
};
CellCounts count_cells(const Comparison& comparison);

/// The size to measure next in order to narrow a crossover: the geometric middle of the first one whose ends are more
/// than 10 % apart. Nothing where all are narrow, or where a size near the middle was measured already and did not
/// decide (a tie there is an answer too). Pure.
std::optional<std::uint64_t> next_size_between(const Comparison& comparison);

/// Whether no case has this size yet.
bool is_new(const Comparison& comparison, std::uint64_t nbytes);

}  // namespace busbar
