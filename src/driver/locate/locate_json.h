#pragma once

#include "common/base/error.h"
#include "common/measure/result.h"
#include "driver/locate/locate_result.h"

#include <optional>
#include <string>

namespace busbar {

/// A whole document (schema_version 1): how it was measured, the verdict with its culprits, every round, the matrix.
/// `code`: nothing before the end; the document then has no verdict.
std::string locate_json(const RunInfo& info, const LocateRun& run, std::optional<ExitCode> code);

}  // namespace busbar
