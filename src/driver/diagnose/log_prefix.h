#pragma once

#include "driver/diagnose/log_fact.h"

#include <cstdint>
#include <string>
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

/// Timestamps as docker, Kubernetes and syslog put them in front of lines, "2026-05-05T06:16:47.123Z"; empty: none.
std::string_view find_iso_timestamp(std::string_view text);

/// Whether a text holds "06:16:47", which is in every format of a time that tells seconds; "[node17:33]" is a
/// launcher's.
bool has_clock(std::string_view text);

/// The rank that a launcher's decoration tells: "[1,3]<stdout>:", "3: ", "[3]:", "[rank3]:". -1: none ("[default3]" is
/// a number within its host).
int decoration_rank(std::string_view decoration);

/// A decoration without what changes from line to line (times): who speaks.
std::string decoration_label(std::string_view decoration);

/// The rank in a file's name: "rank_3.log", "rank-03.txt", "nccl.r3". -1: none.
int file_name_rank(std::string_view name);

}  // namespace busbar
