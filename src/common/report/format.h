#pragma once

#include <cstdint>
#include <string>

#include "common/measure/result.h"

namespace busbar {

/// `value` in at most `width` characters: two decimals, then one, then none, then an exponent, as it grows
/// (nccl-tests' degradation, on which column parsers rely). Not padded.
std::string fit_number(double value, std::size_t width);

/// An amount of memory in powers of 1024 with three significant digits: "64.0 MB", "0.00 B".
std::string memory_amount(std::int64_t nbytes);

/// `text` without the words by which parsers find the footer: no line before it may contain `bandwidth` or `FAILED`.
std::string without_footer_words(std::string text);

/// The `redop` column: the operation, or `none`.
std::string redop_text(const Case& row_case);

/// The `root` column: -1 where the collective has no root.
int shown_root(const Collective& collective, const Case& row_case);

/// The row's half if it was measured; null where the collective lacks the placement or `--placement` leaves it out.
const HalfResult* measured_half(const Config& config, const Row& row, bool in_place);

}  // namespace busbar
