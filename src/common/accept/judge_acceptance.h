#pragma once

#include "common/accept/accept_result.h"
#include "common/accept/platform.h"

#include <vector>

namespace busbar {

/// Judges everything measured so far against the plan; pure. `baseline`: an earlier run, or null. Fills platform,
/// criteria and outcome; nothing is a pass that was not measured.
void judge_acceptance(AcceptResult& result, const std::vector<Platform>& platforms, const AcceptResult* baseline);

}  // namespace busbar
