#pragma once

#include "kernels/pattern.h"

#include <array>
#include <cstdint>

namespace busbar {

/// How often each palette entry takes part in one element's reduction.
using PaletteCounts = std::array<std::uint32_t, kPaletteSize>;

/// The contributions to an element with picks a = 0 and b: entry rotation_of(b, p) for every p below `window`.
/// O(window).
PaletteCounts contributions(std::uint32_t b, std::uint32_t window);

/// Those with another a: entry k + a instead of k.
PaletteCounts rotated(const PaletteCounts& counts, std::uint32_t a);

/// The bits of the reduction of so many copies of each entry (the neutral element where there are none), with the
/// factor of mulsum and the division of avg. Integers wrap as the dtype does; other results are exact where the dtype
/// holds them.
std::uint64_t reduce_palette(const Pattern& pattern, const PaletteCounts& counts);

}  // namespace busbar
