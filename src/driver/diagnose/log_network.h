#pragma once

#include "driver/diagnose/log_fact.h"

#include <string_view>

namespace busbar {

/// NetworkInUse, NetDevices or GdrLine. False, and the fact as it was: nothing of these.
bool parse_network(std::string_view text, LogFact& fact);

}  // namespace busbar
