#pragma once

#include "driver/compare/comparison.h"

#include <string>

namespace busbar {

/// The first line: column names with their units.
std::string compare_csv_header();

/// One line per size and variant, the default's first. Empty fields: what was not measured or does not apply.
std::string compare_csv_lines(const Comparison& comparison);

}  // namespace busbar
