#pragma once

#include "common/record/accept_result.h"
#include "driver/accept/accept_cell.h"

namespace busbar {

/// `locate` as accept runs it: which host (or rank, where all are on one host) is slow. Collective; complete on process
/// 0.
AcceptResult::Located locate_pairs(const AcceptJobContext& context);

}  // namespace busbar
