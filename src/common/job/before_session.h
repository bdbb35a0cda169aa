#pragma once

#include "common/processes/launcher.h"

#include <functional>

namespace busbar {

/// Runs `work` before MPI is up, if every rank finds the same: rank 0 reports, the others leave with 0.
int run_before_session(const Launch& launch, const std::function<int()>& work);

/// The same for work that runs children. If an interrupt ended one (Interrupted), the work is unwound first, which
/// removes its files, and then this process ends by the same signal.
int run_with_children(const Launch& launch, const std::function<int()>& work);

}  // namespace busbar
