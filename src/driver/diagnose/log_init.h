#pragma once

#include "driver/diagnose/log_fact.h"

#include <string_view>

namespace busbar {

/// InitEvent, CommShape, CommEnd, InitTimings or BootstrapTimings. False, and the fact as it was: nothing of these, or
/// cut before it says so.
bool parse_init(std::string_view text, LogFact& fact);

}  // namespace busbar
