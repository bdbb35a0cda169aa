#pragma once

#include "common/measure/result.h"
#include "common/record/json_values.h"

namespace busbar {

/// A cell of --stat: `busbar.out_of_place.stats` of a row.
Json json_cell(const CellStats& cell);

/// What --show-algo knows: `busbar.algorithm` of a row.
Json json_algorithm(const ShownAlgorithm& shown);

/// `busbar.stat` of the file: how the run samples, when it stops, and the cells with the rule of their order.
Json json_sampling(const RunInfo& info, const Plan& plan);

/// `busbar.disturbance` of the file; null where nobody looked.
Json json_disturbance(const std::optional<Disturbance>& disturbance);

}  // namespace busbar
