#include "kernels/pattern.h"

#include "kernels/palette.h"
#include "kernels/reduction.h"

namespace busbar {

Pattern make_pattern(DType dtype, std::optional<Op> op, int nranks, std::uint64_t seed) {
  Pattern pattern;
  pattern.seed = seed;
  pattern.dtype = dtype;
  pattern.nranks = nranks;
  pattern.reduces = op.has_value();
  if (!op) return pattern;

  pattern.op = *op;
  choose_palette(pattern);
  for (std::uint32_t b = 0; b < kPaletteSize; ++b) {
    const PaletteCounts counts = contributions(b, static_cast<std::uint32_t>(pattern.window));
    for (std::uint32_t a = 0; a < kPicks; ++a) pattern.reduced[b][a] = reduce_palette(pattern, rotated(counts, a));
  }
  return pattern;
}

}  // namespace busbar
