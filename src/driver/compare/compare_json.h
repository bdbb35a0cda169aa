#pragma once

#include "common/base/error.h"
#include "common/measure/result.h"
#include "driver/compare/comparison.h"

#include <optional>
#include <span>
#include <string>

namespace busbar {

/// The first line: column names with their units.
std::string compare_csv_header();

/// One line per size and variant, the default's first. Empty fields: what was not measured or does not apply.
std::string compare_csv_lines(const Comparison& comparison);

/// A whole document (schema_version 1): how it was measured, every comparison with all rounds' times, the verdicts and
/// what follows. `code`: nothing while the run goes on.
std::string comparisons_json(const RunInfo& info, double delta, std::span<const Comparison> comparisons,
                             std::optional<ExitCode> code);

}  // namespace busbar
