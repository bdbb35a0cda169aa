#pragma once

// How host.cpp makes elements fast: in batches, by one of two implementations that give identical bits.

#include "kernels/element.h"

#include <cstddef>
#include <cstdint>

namespace busbar {

/// Elements are made in batches of so many, starting at multiples of it: eight groups, one AVX2 vector of group words.
inline constexpr std::size_t kBatchElems = 8 * kGroupElems;

enum class Isa : std::uint8_t { portable, avx2 };

/// The fastest that this machine runs.
Isa best_isa();

/// What generate needs to know, made once per call of fill or check. `rows` holds the 17 rows (element.h), each
/// kPicks elements, in the order of bytes that the implementation looks them up in.
struct Source {
  Isa isa = Isa::portable;
  std::size_t width = 4;
  bool reduces = false;
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  ///< data movement: the rank
  RowRule rule;
  alignas(64) unsigned char rows[(kPaletteSize + 1) * kPicks * 8];
};

/// `rank` may be kReduction where the pattern reduces.
Source make_source(const Pattern& pattern, int rank, Isa isa);

/// Writes `batches` batches from element `first` (a multiple of kBatchElems) to dst; they lie in one segment
/// (kSegmentElems). `streaming`: past the caches, as for memory that is far larger; dst must then be aligned to 32
/// bytes.
void generate(const Source& source, std::uint64_t first, std::size_t batches, void* dst, bool streaming);

/// How many batches at data are what they should be, up to the first that is not.
std::size_t count_matching(const Source& source, std::uint64_t first, std::size_t batches, const void* data);

/// The implementations; generate and count_matching choose.
void generate_portable(const Source& source, std::uint64_t first, std::size_t batches, void* dst);
std::size_t count_matching_portable(const Source& source, std::uint64_t first, std::size_t batches, const void* data);
#if defined(__x86_64__)
void arrange_rows_avx2(Source& source);
void generate_avx2(const Source& source, std::uint64_t first, std::size_t batches, void* dst, bool streaming);
std::size_t count_matching_avx2(const Source& source, std::uint64_t first, std::size_t batches, const void* data);
#endif

}  // namespace busbar
