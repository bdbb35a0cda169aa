#pragma once

#include "driver/report/report_charts.h"

#include <string>
#include <vector>

namespace busbar {

/// What the report's script draws, as JSON that may stand inside a script element whatever the names are. At most
/// `most_squares` squares a side of a matrix: of larger ones each square is several units, and the slowest pair in it.
std::string charts_json(const std::vector<ReportChart>& charts, const std::vector<ReportMatrix>& matrices,
                        const std::vector<ReportSkew>& skews, int most_squares = 512);

}  // namespace busbar
