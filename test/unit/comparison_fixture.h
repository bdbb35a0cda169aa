#pragma once

// Comparisons with results of the test's choice.

#include "driver/compare/comparison.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// An all_reduce on 4 ranks: per size the variants' times over the default's, which takes 100 us. A difference of more
/// than 5 % is confident; 0 stands for "cannot run".
inline Comparison fake_comparison(std::vector<Variant> variants,
                                  const std::vector<std::pair<std::uint64_t, std::vector<double>>>& sizes) {
  Comparison c;
  c.collective = &kAllReduce;
  c.backend = "mpi";
  c.nranks = 4;
  c.nnodes = 1;
  c.variants = std::move(variants);
  for (const auto& [nbytes, ratios] : sizes) {
    ComparedCase at;
    at.row_case.op = Op::sum;
    at.row_case.requested_bytes = nbytes;
    at.row_case.nbytes = nbytes;
    at.row_case.problem = {.count = nbytes / 4, .elem_size = 4, .nranks = 4, .root = 0, .traffic = nullptr};
    at.variants.emplace_back();
    at.variants[0].median_s = 100e-6;
    at.variants[0].ratio = Ratio{};
    at.winner = 0;
    double least = 1;
    for (const double ratio : ratios) {
      VariantCell cell;
      if (ratio == 0) {
        cell.why_not = "it cannot";
      } else {
        cell.median_s = ratio * 100e-6;
        cell.ratio = Ratio{ratio, {ratio - 0.01, ratio + 0.01}};
        cell.difference = ratio < 0.95 ? Difference::faster : ratio > 1.05 ? Difference::slower : Difference::undecided;
      }
      at.variants.push_back(cell);
      if (cell.difference == Difference::undecided && ratio < 1 && at.winner == 0) at.winner = -1;
      if (cell.difference == Difference::faster && ratio < least) {
        least = ratio;
        at.winner = static_cast<int>(at.variants.size()) - 1;
      }
    }
    at.regret = 1 / least - 1;
    c.cases.push_back(at);
  }
  return c;
}

inline std::vector<Variant> ompi_variants() {
  return {{"default", {}},
          {"recursive_doubling", {{"ompi.algorithm", "recursive_doubling"}}},
          {"ring", {{"ompi.algorithm", "ring"}}},
          {"segmented_ring/64K", {{"ompi.algorithm", "segmented_ring"}, {"ompi.segmentsize", "65536"}}}};
}

}  // namespace busbar
