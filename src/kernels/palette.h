#pragma once

#include "kernels/pattern.h"

namespace busbar {

/// Sets window, neutral, palette and tolerance for the pattern's dtype, op and nranks (docs/data_pattern.md has the
/// reasons for every choice). Every partial result over a window, in any order and association, is exact in the dtype,
/// and no entry equals the neutral element.
void choose_palette(Pattern& pattern);

}  // namespace busbar
