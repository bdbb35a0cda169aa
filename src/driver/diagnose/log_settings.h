#pragma once

#include "driver/diagnose/log_fact.h"

#include <string_view>

namespace busbar {

/// EnvSetting, VersionLine or Capability. False, and the fact as it was: nothing of these.
bool parse_setting(std::string_view text, LogFact& fact);

}  // namespace busbar
