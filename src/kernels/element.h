#pragma once

// The one definition of every element, for the host and for CUDA alike. Everything is 32-bit arithmetic on a counter,
// so that eight lanes of AVX2 or the lanes of a warp compute it without dependence on each other.

#include "kernels/number.h"
#include "kernels/pattern.h"

#include <cstdint>

namespace busbar {

/// Streams that no rank has: the picks a(i), four words to a group; and the word of each group that gives b and c.
inline constexpr std::uint32_t kPickStream = 0xFFFFFFFF;
inline constexpr std::uint32_t kGroupStream = 0xFFFFFFFE;

/// The row of ranks outside the window, after the sixteen rotations of the palette.
inline constexpr std::uint32_t kNeutralRow = kPaletteSize;

inline constexpr std::uint32_t kCounterStep = 0x9E3779B1;  ///< odd, nearest to 2^32 / golden ratio
inline constexpr std::uint32_t kMix1 = 0x85EBCA6B;         ///< multipliers of MurmurHash3's fmix32 (A. Appleby)
inline constexpr std::uint32_t kMix2 = 0xC2B2AE35;

/// Elements in a segment, which starts at a multiple of this number. Within it no stream changes its key, not even the
/// words of data movement, of which an element of 8 bytes takes two.
inline constexpr std::uint64_t kSegmentElems = std::uint64_t{1} << 31;

/// Selects one of 2^64 sequences of 2^32 words. `tweak` enters between two multiplications: with `offset` alone, two
/// sequences would be shifted copies, and a shifted or misplaced message could look right.
struct StreamKey {
  std::uint32_t offset = 0;
  std::uint32_t tweak = 0;
};

/// Mixes 64 bits (the finalizer of splitmix64; Steele, Lea and Flood 2014, variant 13 of Stafford).
BUSBAR_HD inline std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// The key of the 2^32 words of `stream` to which word `index` belongs.
BUSBAR_HD inline StreamKey stream_key(std::uint64_t seed, std::uint32_t stream, std::uint64_t index) {
  const std::uint64_t high = index >> 32;
  const std::uint64_t key = mix64(mix64(seed + 0x9E3779B97F4A7C15ull) ^ (high << 32 | stream));
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

/// Word `index` (its low 32 bits) of the key's sequence without the last step, x ^ (x >> 16).
BUSBAR_HD inline std::uint32_t open_word(StreamKey key, std::uint32_t index) {
  std::uint32_t x = index * kCounterStep + key.offset;
  x = (x ^ (x >> 16)) * kMix1;
  // With y = x ^ tweak, y ^ (y >> 13): the part that only depends on the tweak is computed once for many words.
  x = (x ^ (x >> 13) ^ (key.tweak ^ (key.tweak >> 13))) * kMix2;
  return x;
}

/// Word `index` (its low 32 bits) of the key's sequence; within one key no two words are equal.
BUSBAR_HD inline std::uint32_t stream_word(StreamKey key, std::uint32_t index) {
  const std::uint32_t x = open_word(key, index);
  return x ^ (x >> 16);
}

/// Decides a group's row. Row r < 16 is the palette rotated by r for a rank, reduced[r] for the reduction.
struct RowRule {
  bool reduction = false;
  std::uint32_t rank = 0;
  std::uint32_t nranks = 1;
  std::uint32_t window = 1;
};

BUSBAR_HD inline RowRule row_rule(const Pattern& pattern, int rank) {
  return {rank == kReduction, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(pattern.nranks),
          static_cast<std::uint32_t>(pattern.window)};
}

/// b of the group with this word, in [0, 16).
BUSBAR_HD inline std::uint32_t group_b(std::uint32_t word) { return word % kPaletteSize; }

/// The place of `rank` in the group's order, p = (rank + c) mod nranks; it contributes if p < window.
BUSBAR_HD inline std::uint32_t group_place(std::uint32_t word, std::uint32_t rank, std::uint32_t nranks) {
  const auto c = static_cast<std::uint32_t>(static_cast<std::uint64_t>(word) * nranks >> 32);
  const std::uint32_t p = rank + c;
  return p < nranks ? p : p - nranks;
}

/// The rotation of the palette for the rank at place p: the upper bits of p times one of sixteen unrelated numbers.
/// With p * b instead, places sixteen apart would hold the same data for every b: ranks 0 and 16 of 32.
BUSBAR_HD inline std::uint32_t rotation_of(std::uint32_t b, std::uint32_t p) {
  const std::uint32_t x = b * kCounterStep + kMix1;
  return x * x * p >> 28;
}

BUSBAR_HD inline std::uint32_t row_of(const RowRule& rule, std::uint32_t word) {
  if (rule.reduction) return group_b(word);
  const std::uint32_t p = group_place(word, rule.rank, rule.nranks);
  return p < rule.window ? rotation_of(group_b(word), p) : kNeutralRow;
}

/// Entry a of a row, as bits.
BUSBAR_HD inline std::uint64_t row_entry(const Pattern& pattern, bool reduction, std::uint32_t row, std::uint32_t a) {
  if (reduction) return pattern.reduced[row][a];
  return row == kNeutralRow ? pattern.neutral : pattern.palette[(a + row) % kPaletteSize];
}

/// Words of picks per group.
inline constexpr std::uint32_t kPickWords = 4;

/// Where a(i) is in its group's sixteen bytes of picks: the low halves of the bytes belong to the first sixteen
/// elements, the high halves to the other sixteen.
BUSBAR_HD inline std::uint64_t pick_word(std::uint64_t index) {
  return index / kGroupElems * kPickWords + index % 16 / 4;
}
BUSBAR_HD inline std::uint32_t pick_shift(std::uint64_t index) {
  return static_cast<std::uint32_t>(index % 4 * 8 + index % kGroupElems / 16 * 4);
}

/// a(i): which entry of the group's half palette.
BUSBAR_HD inline std::uint32_t pick_of(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t at = pick_word(index);
  const std::uint32_t word = stream_word(stream_key(seed, kPickStream, at), static_cast<std::uint32_t>(at));
  return (word >> pick_shift(index)) % kPicks;
}

/// The group word of element `index`.
BUSBAR_HD inline std::uint32_t group_word(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t group = index / kGroupElems;
  return stream_word(stream_key(seed, kGroupStream, group), static_cast<std::uint32_t>(group));
}

/// Data movement: element `index` of `width` bytes is bytes [index*width, (index+1)*width) of the rank's word stream.
BUSBAR_HD inline std::uint64_t moved_element(std::uint64_t seed, int rank, std::uint64_t index, unsigned width) {
  const auto stream = static_cast<std::uint32_t>(rank);
  if (width == 8) {
    const StreamKey key = stream_key(seed, stream, index * 2);
    const auto low = static_cast<std::uint32_t>(index * 2);
    return static_cast<std::uint64_t>(stream_word(key, low + 1)) << 32 | stream_word(key, low);
  }
  const std::uint64_t byte = index * width;
  const std::uint32_t word = stream_word(stream_key(seed, stream, byte / 4), static_cast<std::uint32_t>(byte / 4));
  const std::uint32_t shifted = word >> (byte % 4 * 8);
  return width == 4 ? shifted : shifted & ((1u << (width * 8)) - 1);
}

/// The bits of one element: a rank's own (rank >= 0) or the reduction over all (kReduction).
BUSBAR_HD inline std::uint64_t element_of(const Pattern& pattern, int rank, std::uint64_t index, unsigned width) {
  if (!pattern.reduces) return moved_element(pattern.seed, rank, index, width);
  const RowRule rule = row_rule(pattern, rank);
  const std::uint32_t row = row_of(rule, group_word(pattern.seed, index));
  return row_entry(pattern, rule.reduction, row, pick_of(pattern.seed, index));
}

}  // namespace busbar
