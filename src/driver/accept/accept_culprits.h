#pragma once

#include "common/record/accept_result.h"

#include <string>

namespace busbar {

/// Who is to blame, a line each: what was located, what hung or crashed, slow ranks, and the hosts that failed criteria
/// name. Empty where nobody is.
std::string culprits_text(const AcceptResult& result);

/// The one thing to do first, by what failed; empty after a pass.
std::string next_step(const AcceptResult& result);

}  // namespace busbar
