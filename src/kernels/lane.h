#pragma once

// What one GPU thread computes. Apart from the kernels, and compiled for the host as well, so that it is tested on
// machines without a GPU.

#include "kernels/element.h"

#include <cstdint>
#include <type_traits>

namespace busbar {

/// The unsigned integer of W bytes: elements are bits here.
template <unsigned W>
using BitsOf = std::conditional_t<
    W == 8, std::uint64_t,
    std::conditional_t<W == 4, std::uint32_t, std::conditional_t<W == 2, std::uint16_t, std::uint8_t>>>;

/// 16 bytes: what a thread loads or stores at once.
struct alignas(16) Vector16 {
  std::uint32_t x, y, z, w;
};

/// Makes one thread's elements of a source. `rows` are the source's rows (row_entry), in shared memory.
template <unsigned W, bool reduces>
struct Maker {
  RowRule rule;
  Stream words;   ///< data movement: the elements; reductions: the picks
  Stream groups;  ///< reductions
  const BitsOf<W>* rows;

  BUSBAR_HD Maker(const Pattern& pattern, int rank, std::uint64_t first, const BitsOf<W>* rows_)
      : rule(row_rule(pattern, rank)),
        words(pattern.seed, reduces ? kPickStream : static_cast<std::uint32_t>(rank),
              reduces ? pick_word(first) : first * W / 4),
        groups(pattern.seed, kGroupStream, first / kGroupElems),
        rows(rows_) {}

  BUSBAR_HD BitsOf<W> element(std::uint64_t i) {
    if constexpr (reduces) {
      const std::uint32_t row = row_of(rule, groups.word(i / kGroupElems));
      return rows[row * kPicks + (words.word(pick_word(i)) >> pick_shift(i)) % kPicks];
    } else if constexpr (W == 8) {
      return static_cast<std::uint64_t>(words.word(2 * i + 1)) << 32 | words.word(2 * i);
    } else {
      return static_cast<BitsOf<W>>(words.word(i * W / 4) >> (i * W % 4 * 8));
    }
  }

  /// The 16 bytes from element i on, a multiple of 16 / W: they lie in one group.
  BUSBAR_HD Vector16 vector(std::uint64_t i) {
    std::uint32_t out[4] = {};
    if constexpr (reduces) {
      const BitsOf<W>* const row = rows + row_of(rule, groups.word(i / kGroupElems)) * kPicks;
      std::uint32_t picks = words.word(pick_word(i)) >> pick_shift(i);
      for (unsigned j = 0; j < 16 / W; ++j) {
        if (j > 0 && j % 4 == 0)
          picks = stream_word(words.key, static_cast<std::uint32_t>(pick_word(i)) + j / 4) >> pick_shift(i);
        const BitsOf<W> entry = row[(picks >> (j % 4 * 8)) % kPicks];
        if constexpr (W == 8) {
          out[2 * j] = static_cast<std::uint32_t>(entry);
          out[2 * j + 1] = static_cast<std::uint32_t>(entry >> 32);
        } else {
          out[j * W / 4] |= static_cast<std::uint32_t>(entry) << (j * W % 4 * 8);
        }
      }
    } else {
      const std::uint64_t index = i * W / 4;
      out[0] = words.word(index);  // a multiple of four, so that the key is that of the others too
      for (unsigned j = 1; j < 4; ++j) out[j] = stream_word(words.key, static_cast<std::uint32_t>(index) + j);
    }
    return {out[0], out[1], out[2], out[3]};
  }
};

/// How a range of elements splits into aligned vectors and the single elements before and after them.
struct Split {
  std::uint64_t head = 0;
  std::uint64_t vectors = 0;
  std::uint64_t singles = 0;  ///< head and tail together
};

/// Splits `count` elements at `memory`, which is aligned to an element; the first is element `first` of the data. No
/// vectors where these would straddle groups, because memory and elements are out of step.
template <unsigned W>
BUSBAR_HD Split split(const void* memory, std::uint64_t first, std::uint64_t count) {
  constexpr unsigned per_vector = 16 / W;
  const auto misaligned = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(memory) % 16);
  const std::uint64_t head = (16 - misaligned) % 16 / W;
  if (head > count || (first + head) % per_vector != 0) return {0, 0, count};
  const std::uint64_t vectors = (count - head) / per_vector;
  return {head, vectors, count - vectors * per_vector};
}

}  // namespace busbar
