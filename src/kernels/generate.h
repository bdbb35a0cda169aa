#pragma once

// How host.cpp makes elements fast: in batches, by one of two implementations that give identical bits.

#include "kernels/element.h"

#include <cstddef>
#include <cstdint>

namespace busbar {

/// Elements per batch, which starts at a multiple of it: eight groups.
inline constexpr std::size_t kBatchElems = 8 * kGroupElems;

enum class Isa : std::uint8_t { portable, avx2 };

/// The fastest implementation that this machine runs.
Isa best_isa();

/// What generate needs, made once per call of fill or check. `rows` holds the 17 rows (element.h) of kPicks elements
/// each.
struct Source {
  Isa isa = Isa::portable;
  std::size_t width = 4;
  bool reduces = false;
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  ///< data movement: the rank
  RowRule rule;
  alignas(64) unsigned char rows[(kPaletteSize + 1) * kPicks * 8];
};

/// `rank` may be kReduction if the pattern reduces.
Source make_source(const Pattern& pattern, int rank, Isa isa);

/// Writes `batches` batches from element `first` (a multiple of kBatchElems) to dst; all are in one segment
/// (kSegmentElems). `streaming`: past the caches, for memory that is far larger; dst must then be aligned to 32 bytes.
void generate(const Source& source, std::uint64_t first, std::size_t batches, void* dst, bool streaming);

}  // namespace busbar
