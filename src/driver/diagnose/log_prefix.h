#pragma once

#include "driver/diagnose/log_fact.h"

#include <cstdint>
#include <string_view>

namespace busbar {

enum class LogLevel : std::uint8_t { none, version, info, warn, call, trace };

/// How grave a line of NCCL is, and what follows "host:pid:tid [dev] NCCL INFO ".
struct LogPrefix {
  LogLevel level = LogLevel::none;
  std::string_view file;      ///< of warnings: "transport/net_ib.cc:123"
  std::string_view function;  ///< of warnings of 2.30.7 on
  std::string_view text;      ///< the message; the whole line where there is no prefix
};

/// Finds the last prefix of the line, wherever it stands: several processes that write to one pipe leave lines that
/// begin with the prefix of one and go on with the line of another. Any part of host:pid:tid and [dev] may be missing.
/// Without a prefix: level none and no origin, or level version ("NCCL version 2.x" alone) and a decoration at most.
LogPrefix split_log_prefix(std::string_view line, LogOrigin& origin);

}  // namespace busbar
