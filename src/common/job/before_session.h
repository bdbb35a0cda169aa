#pragma once

#include "common/processes/launcher.h"

#include <functional>

namespace busbar {

/// Runs `work` where there is no MPI yet and every rank finds the same: rank 0 speaks, the others leave with 0.
int run_before_session(const Launch& launch, const std::function<int()>& work);

/// The same for work that runs children: where an interrupt ended one (Interrupted), the work is unwound first, so that
/// its files go, and then this process ends by the same signal.
int run_with_children(const Launch& launch, const std::function<int()>& work);

}  // namespace busbar
