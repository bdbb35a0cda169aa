#pragma once

#include "common/base/error.h"
#include "common/measure/result.h"
#include "driver/locate/locate_run.h"

#include <optional>
#include <string>

namespace busbar {

/// "61.9 MB/s", "412 GB/s", in powers of 1000.
std::string bandwidth_text(double bytes_per_s);

/// "calibration", "matching", ..., "alone".
const char* kind_word(LocateRound::Kind kind);

/// "transmit", "receive", "both ways", "-".
const char* side_word(Culprit::Side side);

/// What `locate` prints: the verdict first, then who is to blame with counts, what counters moved, the matrix and how
/// it was measured; `# ` before everything but the verdict's block.
std::string locate_text(const LocateRun& run);

/// Pairs as shares of the median: numbers for up to 16 units, a heat map for up to 32, else the suspects' rows and how
/// often which share was seen. One-way measurements in a matrix of their own, whose rows send. Lines start with `# `.
std::string matrix_text(const AcceptResult::Located& located);

/// A whole document (schema_version 1): how it was measured, the verdict with its culprits, every round, the matrix.
/// `code`: nothing before the end; the document then has no verdict.
std::string locate_json(const RunInfo& info, const LocateRun& run, std::optional<ExitCode> code);

}  // namespace busbar
