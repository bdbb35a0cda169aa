#pragma once

#include "driver/compare/comparison.h"

#include <cstdint>
#include <optional>

namespace busbar {

/// The size to measure next in order to narrow a crossover: the geometric middle of the first one whose ends are more
/// than 10 % apart. Nothing where all are narrow, or where a size near the middle was measured already and did not
/// decide (a tie there is an answer too). Pure.
std::optional<std::uint64_t> next_size_between(const Comparison& comparison);

/// Whether no case has this size yet.
bool is_new(const Comparison& comparison, std::uint64_t nbytes);

}  // namespace busbar
