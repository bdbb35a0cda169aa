#pragma once

#include "driver/diagnose/log_fact.h"

#include <string_view>

namespace busbar {

/// CollCall: "AllReduce: opCount 1f sendbuff ... stream 0x...", and what people shorten it to ("AllReduce: opCount 280
/// count 512"). False, and the fact as it was: no call, or one that is cut before its communicator's end.
bool parse_call(std::string_view text, LogFact& fact);

/// TuningChoice, of 2.4 to 2.30: "[Op: ]1024 Bytes -> Algo a proto p ...". `text` begins with it.
bool parse_tuning(std::string_view text, LogFact& fact);

}  // namespace busbar
