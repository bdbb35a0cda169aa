#pragma once

#include "driver/diagnose/log_fact.h"

#include <string_view>

namespace busbar {

/// Connection, Connected or ChannelCounts. False, and the fact as it was: nothing of these (ring tables and graphs
/// begin alike), or cut.
bool parse_transport(std::string_view text, LogFact& fact);

}  // namespace busbar
