#pragma once

#include "common/measure/result.h"
#include "driver/compare/comparison.h"

#include <span>
#include <string>

namespace busbar {

// What `busbar compare` says on stdout. Lines that are not rows of numbers begin with `#`.

/// The lines before the first table.
std::string compare_header(const RunInfo& info, double delta);

/// One comparison: its table (in blocks of columns where variants are many), and below it what follows: crossovers,
/// why cells are n/a or WRONG, what ran, Hockney fits, how much stayed open.
std::string comparison_text(const Comparison& comparison);

// Parts of it, for tests and other reports. ------------------------------------------------------------------------

/// "0.571+-1.2%<": the ratio, half of its interval, and what the interval says: '<' faster, '>' slower, '=' equivalent,
/// '?' undecided; "n/a", "WRONG", or "-" where nothing was measured.
std::string cell_text(const VariantCell& cell);

/// "ring", "ring or rabenseifner", "tie"; "-" where nothing was compared.
std::string winner_text(const Comparison& comparison, const ComparedCase& compared);

/// "ring passes recursive_doubling and default between 8 KiB and 16 KiB", one per line.
std::vector<std::string> crossover_lines(const Comparison& comparison);

/// "all_reduce float sum, out of place, 4 ranks": what a comparison is of.
std::string title(const Comparison& comparison);

}  // namespace busbar
