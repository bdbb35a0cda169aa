#pragma once

#include "common/record/accept_result.h"
#include "driver/accept/platform.h"

#include <vector>

namespace busbar {

/// Judges everything measured so far against the plan; pure. `baseline`: an earlier run, or null. Fills platform,
/// criteria and outcome; nothing is a pass that was not measured.
void judge_acceptance(AcceptResult& result, const std::vector<Platform>& platforms, const AcceptResult* baseline);

/// Of several looks at the pairs one alone failed: in hours of looks that happens by chance, so it is a WARN.
inline bool failed_once(const AcceptResult::Located& located) { return located.looks > 1 && located.failed == 1; }

}  // namespace busbar
