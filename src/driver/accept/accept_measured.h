#pragma once

#include "common/record/accept_result.h"

#include <string>

namespace busbar {

/// What was measured, a line for each size of a cell in a stage, at most 120 columns: median time, half the width of
/// its interval, busbw, wrong elements. Of several hosts or repetitions the median, and of hosts the slowest too. Empty
/// where nothing was measured.
std::string measured_text(const AcceptResult& result);

}  // namespace busbar
