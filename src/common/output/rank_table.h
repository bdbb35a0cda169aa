#pragma once

#include "common/measure/result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace busbar {

/// More ranks of a cell than these are left to JSON.
inline constexpr std::size_t kMaxTableRanks = 16;

/// What the columns of rank_table mean; once before the first.
std::string rank_table_legend();

/// One cell of --per-rank as `# ...` lines: who the straggler is, then the ranks, latest first. `cell_name` is like
/// "1024 B out-of-place".
std::string rank_table(std::string_view cell_name, const CellStats& cell);

}  // namespace busbar
