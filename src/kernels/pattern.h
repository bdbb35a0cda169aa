#pragma once

#include "collectives/collective.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace busbar {

/// Entries of a reduction palette; also its rotations, and the rows of the table of its reductions.
inline constexpr int kPaletteSize = 16;

/// Entries that one group of elements chooses from, each with its own a(i): half a rotated palette, because one AVX2
/// shuffle looks up eight.
inline constexpr int kPicks = 8;

/// Elements that share the ranks' order and rotations: element i of a reduction belongs to group i / kGroupElems.
inline constexpr int kGroupElems = 32;

/// The byte that fills receive buffers before an operation, so that data that never arrived shows.
inline constexpr unsigned char kPoisonByte = 0xA5;

/// The byte of the guard bands on both sides of a buffer, and their width.
inline constexpr unsigned char kGuardByte = 0xC3;
inline constexpr std::size_t kGuardBytes = 4096;

/// The definition of one case's data: every rank's elements and every reduction of them, computable in O(1) per element
/// at any number of ranks, on the host and on a GPU alike (element.h).
///
/// Data movement: element bits are a counter-based hash of (seed, rank, index).
/// Reductions: with a(i) < 8, b(group) < 16, c(group) < nranks from hashes of (seed, index) and p = (rank + c) mod
/// nranks, rank's element is palette[(a + rotation_of(b, p)) mod 16] if p < window, else the op's neutral element; the
/// reduction over all ranks is then reduced[b][a]. The palette and the window are chosen so that every partial result
/// in any order is exact in the dtype. A plain value; build it with make_pattern.
struct Pattern {
  std::uint64_t seed = 0;
  DType dtype = DType::float32;
  bool reduces = false;  ///< false: data movement, the tables below are unused
  Op op = Op::sum;
  int nranks = 1;
  int window = 1;                                    ///< ranks that contribute to an element
  std::uint64_t neutral = 0;                         ///< bits of what the other ranks hold
  std::uint64_t palette[kPaletteSize] = {};          ///< bits
  std::uint64_t reduced[kPaletteSize][kPicks] = {};  ///< [b][a], bits of the reduction
  double tolerance = 0;  ///< largest |got - want| that the library's rounding explains; 0: bit for bit
};

/// The pattern of one case. `op` has a value exactly for collectives that reduce; `nranks` >= 1. The tolerance is above
/// 0 only for avg of floating-point types if 1/nranks is not a power of two (docs/evidence/data_pattern.md).
Pattern make_pattern(DType dtype, std::optional<Op> op, int nranks, std::uint64_t seed);

/// The same data definition with another seed; O(1), the tables do not depend on the seed.
inline Pattern with_seed(Pattern pattern, std::uint64_t seed) {
  pattern.seed = seed;
  return pattern;
}

/// How often each palette entry takes part in one element's reduction.
using PaletteCounts = std::array<std::uint32_t, kPaletteSize>;

/// The contributions to an element with picks a = 0 and b: entry rotation_of(b, p) for every p below `window`.
/// O(window).
PaletteCounts contributions(std::uint32_t b, std::uint32_t window);

/// The same for another a: entry k + a instead of k.
PaletteCounts rotated(const PaletteCounts& counts, std::uint32_t a);

/// The bits of the reduction of so many copies of each entry (the neutral element if there are none), with the factor
/// of mulsum and the division of avg. Integers wrap as the dtype does; other results are exact if the dtype holds them.
std::uint64_t reduce_palette(const Pattern& pattern, const PaletteCounts& counts);

}  // namespace busbar
