#pragma once

#include "common/measure/result.h"

#include <cstddef>
#include <string>

namespace busbar {

/// Ranks that one wrong row explains on stderr: enough to see a pattern, few enough to find the next row.
inline constexpr std::size_t kMaxExplainedRanks = 8;

/// Explains a wrong row on stderr: which row, then a line per wrong buffer of the first kMaxExplainedRanks ranks, each
/// starting with "# wrong:". Empty when row.wrong is. `in_json`: -J has the ranks that are left out.
std::string wrong_text(const Collective& collective, const Row& row, bool in_json);

}  // namespace busbar
