#pragma once

// What one GPU thread computes. Separate from the kernels and compiled for the host as well, so that machines without a
// GPU can test it.

#include "kernels/element.h"

#include <cstdint>
#include <type_traits>

namespace busbar {

/// The unsigned integer of W bytes: elements are handled as bits here.
template <unsigned W>
using BitsOf = std::conditional_t<
    W == 8, std::uint64_t,
    std::conditional_t<W == 4, std::uint32_t, std::conditional_t<W == 2, std::uint16_t, std::uint8_t>>>;

/// 16 bytes: what a thread loads or stores at once.
struct alignas(16) Vector16 {
  std::uint32_t words[4];
};

/// What a thread makes at once: 16 bytes from some element on, and 16 bytes from the sixteenth element after it. Both
/// are in one group, and a word of picks covers four elements of each. A group has W such pairs.
struct VectorPair {
  Vector16 low, high;
};

/// The bytes of x and y (0 to 3 and 4 to 7) that the four nibbles of `selector` name; their top bits are 0.
BUSBAR_HD inline std::uint32_t permute_bytes(std::uint32_t x, std::uint32_t y, std::uint32_t selector) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(x, y, selector);
#else
  const std::uint64_t bytes = static_cast<std::uint64_t>(y) << 32 | x;
  std::uint32_t chosen = 0;
  for (unsigned i = 0; i < 4; ++i) {
    chosen |= static_cast<std::uint32_t>(bytes >> ((selector >> (4 * i) & 7) * 8) & 0xFF) << (8 * i);
  }
  return chosen;
#endif
}

/// A source's rows in lookup order: a row of narrow elements as the eight first bytes, then the eight second ones.
template <unsigned W>
struct alignas(16) Rows {
  static constexpr unsigned kRowBytes = kPicks * W;
  static constexpr bool kPlanes = W <= 2;
  unsigned char bytes[(kPaletteSize + 1) * kRowBytes];

  BUSBAR_HD void set(unsigned row, unsigned a, std::uint64_t entry) {
    if constexpr (kPlanes) {
      for (unsigned i = 0; i < W; ++i) {
        bytes[row * kRowBytes + i * kPicks + a] = static_cast<unsigned char>(entry >> (8 * i));
      }
    } else {
      reinterpret_cast<BitsOf<W>*>(bytes)[row * kPicks + a] = static_cast<BitsOf<W>>(entry);
    }
  }

  /// Entry a of the row that begins at byte `row_byte`.
  BUSBAR_HD BitsOf<W> at(std::uint32_t row_byte, std::uint32_t a) const {
    if constexpr (W == 1) {
      return bytes[row_byte + a];
    } else if constexpr (W == 2) {
      return static_cast<std::uint16_t>(bytes[row_byte + a] | bytes[row_byte + kPicks + a] << 8);
    } else {
      return *reinterpret_cast<const BitsOf<W>*>(bytes + (row_byte + a * W));
    }
  }
};

/// Whose data a range holds.
enum class Holds { moved, rank, reduced };

/// Makes one thread's elements of a source in the segment (kSegmentElems) of element `first`.
template <unsigned W, Holds holds>
struct Maker {
  static constexpr bool kReduces = holds != Holds::moved;
  RowRule rule;
  StreamKey words;   ///< data movement: the elements; reductions: the picks
  StreamKey groups;  ///< reductions
  const Rows<W>* rows;

  BUSBAR_HD Maker(const Pattern& pattern, int rank, std::uint64_t first, const Rows<W>* rows_)
      : rule(row_rule(pattern, rank)),
        words(stream_key(pattern.seed, kReduces ? kPickStream : static_cast<std::uint32_t>(rank),
                         kReduces ? pick_word(first) : first * W / 4)),
        groups(stream_key(pattern.seed, kGroupStream, first / kGroupElems)),
        rows(rows_) {
    rule.reduction = holds == Holds::reduced;  // known at compile time
  }

  BUSBAR_HD BitsOf<W> element(std::uint64_t i) const {
    if constexpr (kReduces) {
      return rows->at(row_byte(static_cast<std::uint32_t>(i / kGroupElems)),
                      (word(pick_word(i)) >> pick_shift(i)) % kPicks);
    } else if constexpr (W == 8) {
      return static_cast<std::uint64_t>(word(2 * i + 1)) << 32 | word(2 * i);
    } else {
      return static_cast<BitsOf<W>>(word(i * W / 4) >> (i * W % 4 * 8));
    }
  }

  /// Pair j < W of the group.
  BUSBAR_HD VectorPair pair(std::uint32_t group, unsigned j) const {
    VectorPair out;
    if constexpr (!kReduces) {
      const std::uint32_t first = (group * W * 2 + j) * 4;
      for (unsigned n = 0; n < 4; ++n) {
        out.low.words[n] = stream_word(words, first + n);
        out.high.words[n] = stream_word(words, first + n + 4 * W);
      }
    } else if constexpr (W <= 2) {
      bytes_of_planes(group, j, out);
    } else {
      // 16 / W picks of the low half and as many of the high one, each shifted so that it counts bytes of a row.
      constexpr unsigned kPerVector = 16 / W;
      const std::uint32_t row = row_byte(group);
      const std::uint32_t picks =
          stream_word(words, group * kPickWords + (W == 8 ? j / 2 : j)) >> (W == 8 ? j % 2 * 16 : 0);
      for (unsigned n = 0; n < kPerVector; ++n) {
        set_element(out.low, n, rows->at(row, picks >> (8 * n) & 7));
        set_element(out.high, n, rows->at(row, picks >> (8 * n + 4) & 7));
      }
    }
    return out;
  }

 private:
  BUSBAR_HD std::uint32_t word(std::uint64_t index) const {
    return stream_word(words, static_cast<std::uint32_t>(index));
  }

  BUSBAR_HD std::uint32_t row_byte(std::uint32_t group) const {
    return row_of(rule, stream_word(groups, group)) * Rows<W>::kRowBytes;
  }

  BUSBAR_HD static void set_element(Vector16& v, unsigned n, BitsOf<W> bits) {
    v.words[n * W / 4] = static_cast<std::uint32_t>(bits);
    if constexpr (W == 8) v.words[n * 2 + 1] = static_cast<std::uint32_t>(bits >> 32);
  }

  /// Elements of 1 and 2 bytes. The eight nibbles of a word of picks alternate between the low and the high vector.
  /// They form two selectors, each of four entries of a row's eight bytes.
  BUSBAR_HD void bytes_of_planes(std::uint32_t group, unsigned j, VectorPair& out) const {
    const auto* const row = reinterpret_cast<const std::uint32_t*>(rows->bytes + row_byte(group));
    std::uint32_t plane[W][2];
    for (unsigned i = 0; i < W; ++i) {
      plane[i][0] = row[2 * i];
      plane[i][1] = row[2 * i + 1];
    }
    for (unsigned n = 0; n < 4 / W; ++n) {
      const std::uint32_t picks = open_word(words, group * kPickWords + j * 2 + n);
      const std::uint32_t upper = picks >> 16, selectors[2] = {(picks ^ upper) & 0x7777, upper & 0x7777};
      std::uint32_t found[2][W];
      for (unsigned half = 0; half < 2; ++half) {
        for (unsigned i = 0; i < W; ++i) found[half][i] = permute_bytes(plane[i][0], plane[i][1], selectors[half]);
      }
      if constexpr (W == 1) {
        out.low.words[n] = permute_bytes(found[0][0], found[1][0], 0x6420);
        out.high.words[n] = permute_bytes(found[0][0], found[1][0], 0x7531);
      } else {
        for (unsigned half = 0; half < 2; ++half) {
          out.low.words[2 * n + half] = permute_bytes(found[half][0], found[half][1], 0x6240);
          out.high.words[2 * n + half] = permute_bytes(found[half][0], found[half][1], 0x7351);
        }
      }
    }
  }
};

/// Splits a range of elements into whole groups, which are made by pairs of vectors, and the single elements before and
/// after them.
struct Split {
  std::uint64_t head = 0;
  std::uint32_t groups = 0;
  std::uint32_t singles = 0;  ///< head and tail together
  bool in_step = true;        ///< vectors are aligned in memory
};

/// Splits `count` elements of one segment at `memory`, which is aligned to an element; the first is element `first` of
/// the data. If vectors do not start at whole words, at least a word of single elements is on either side, so that the
/// first and the last word of the vectors belong to the range.
template <unsigned W>
BUSBAR_HD Split split(const void* memory, std::uint64_t first, std::uint64_t count) {
  Split s;
  s.head = (kGroupElems - first % kGroupElems) % kGroupElems;
  const auto at = static_cast<unsigned>((reinterpret_cast<std::uintptr_t>(memory) + s.head * W) % 16);
  s.in_step = at == 0;
  const std::uint64_t margin = at % 4 == 0 ? 0 : 4 / W;  // [elements]
  if (s.head < margin) s.head += kGroupElems;
  if (s.head + margin < count) {
    s.groups = static_cast<std::uint32_t>((count - s.head - margin) / kGroupElems);
  } else {
    s.head = count;
  }
  s.singles = static_cast<std::uint32_t>(count - std::uint64_t{s.groups} * kGroupElems);
  return s;
}

}  // namespace busbar
