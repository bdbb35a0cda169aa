#pragma once

#include "common/measure/plan.h"
#include "common/statistics/paired.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// One way to set the library. The first of a comparison has no settings: the library's own choice.
struct Variant {
  std::string label;                                          ///< "default", "ring", "Tree/LL128"
  std::vector<std::pair<std::string, std::string>> settings;  ///< ("NCCL_ALGO", "Ring"), ("ompi.algorithm", "ring")
};

/// One variant at one size.
struct VariantCell {
  std::string why_not;      ///< not empty: it cannot run here, and why
  std::uint64_t wrong = 0;  ///< wrong elements: never a winner
  double median_s = 0;      ///< of rounds_s
  /// One per round, while it was in the size: a launch, or new communicators with what their turns say of this variant
  /// against the default, times the default's median.
  std::vector<double> rounds_s;
  std::optional<Ratio> ratio;  ///< its time over the default's
  double p = 1;                ///< of "no difference from the default"
  double band_p = 1;           ///< of "no difference from the default beyond the band"
  double adjusted_p = 1;       ///< Holm's of band_p, over all cells of the comparison
  double probability_faster = 0.5;
  Difference difference = Difference::undecided;  ///< against the default
  bool dropped = false;                           ///< confidently worse than the best: measured no further
  ShownAlgorithm ran;                             ///< what the library says it ran

  bool usable() const { return why_not.empty() && wrong == 0 && median_s > 0; }
};

/// All variants at one size.
struct ComparedCase {
  Case row_case;
  bool in_place = false;
  int rounds = 0;
  bool out_of_time = false;           ///< stopped by the clock, not by a decision
  std::vector<VariantCell> variants;  ///< as Comparison::variants
  /// Index of the variant that is confidently faster than the default and than which none is confidently faster; 0
  /// if the default is such; -1: tie (no variant can be told from the best).
  int winner = -1;
  int fastest = 0;  ///< by estimate alone
  /// Default's time over the winner's, less 1, corrected for the winner's luck; 0 if none beats the default.
  double regret = 0;
};

/// One collective compared over its sizes, in rising order.
struct Comparison {
  const Collective* collective = nullptr;
  std::string backend;  ///< BackendTraits::name
  int nranks = 0;
  int nnodes = 0;
  double delta = 0.02;            ///< differences within this band do not count
  bool between_launches = false;  ///< each variant was a launch of its own, not a communicator
  std::vector<Variant> variants;
  std::vector<ComparedCase> cases;
};

/// A change of the fastest variant between two sizes.
struct NamedCrossover {
  std::size_t below = 0;  ///< variant that wins up to `crossover.low`
  std::size_t above = 0;  ///< variant that wins from `crossover.high` on
  Crossover crossover;
};

// From the rounds' times to what a comparison says. Pure: the same numbers give the same verdicts on every process.

/// b's time over a's, from the rounds that both ran; nothing if there are too few.
std::optional<Ratio> ratio_between(const VariantCell& a, const VariantCell& b, bool between_launches);

/// Fills median, ratio to the default, p, A12 and difference of every usable variant from its rounds.
void judge_rounds(ComparedCase& compared, double delta, bool between_launches = false);

/// The usable variants still in the size that are confidently slower than the fastest by more than delta, at a look's
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

/// One per variant; nothing if fewer than three sizes were measured, or if a size is 30 % or more off the fit.
std::vector<std::optional<HockneyFit>> hockney_fits(const Comparison& comparison);

/// Cells of variants (the default's left out) that were measured and could not be told from the default.
struct CellCounts {
  int compared = 0;
  int undecided = 0;
  int out_of_time = 0;  ///< of the undecided ones: in cases that the clock ended
  int not_possible = 0;
  int wrong = 0;  ///< the default included
};
CellCounts count_cells(const Comparison& comparison);
bool any_wrong(std::span<const Comparison> comparisons);

/// The size to measure next in order to narrow a crossover: the geometric middle of the first one whose ends are more
/// than 10 % apart. Nothing if all are narrow, or if a size near the middle was measured already and did not
/// decide (a tie there is an answer too). Pure.
std::optional<std::uint64_t> next_size_between(const Comparison& comparison);

/// Whether no case has this size yet.
bool is_new(const Comparison& comparison, std::uint64_t nbytes);

}  // namespace busbar
