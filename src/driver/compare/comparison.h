#pragma once

#include "common/measure/plan.h"
#include "common/statistics/curves.h"

#include <cstdint>
#include <optional>
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
  std::string why_not;           ///< not empty: it cannot run here, and why
  std::uint64_t wrong = 0;       ///< wrong elements: never a winner
  double median_s = 0;           ///< of the rounds' medians
  std::vector<double> rounds_s;  ///< one per round, while it was in the race
  std::optional<Ratio> ratio;    ///< its time over the default's
  double p = 1;                  ///< signed rank, of "no difference from the default"
  double adjusted_p = 1;         ///< Holm's, over all cells of the comparison
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
  /// where the default is such; -1: tie (no variant can be told from the best).
  int winner = -1;
  int fastest = 0;    ///< by estimate alone
  double regret = 0;  ///< default's time over the winner's, less 1; 0 where none beats it
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

}  // namespace busbar
