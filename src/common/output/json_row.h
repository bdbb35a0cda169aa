#pragma once

#include "common/measure/result.h"
#include "common/record/json_values.h"

namespace busbar {

/// An entry of nccl-tests' `results`, with what only this suite knows in its object `busbar`.
Json json_row(const Config& config, const Collective& collective, const Row& row);

/// An entry of `busbar.wrong`.
Json json_wrong_rank(const Collective& collective, const Row& row, const WrongRank& wrong);

}  // namespace busbar
