#pragma once

#include "driver/diagnose/log_fact.h"

#include <string_view>

namespace busbar {

/// ReturnCode, "enqueue.cc:123 -> 3 [Async thread]", or a Warning that NCCL only calls INFO. False, and the fact as it
/// was: nothing of these.
bool parse_trouble(std::string_view text, LogFact& fact);

}  // namespace busbar
