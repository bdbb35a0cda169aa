#pragma once

#include "driver/diagnose/log_fact.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace busbar {

enum class LogLevel : std::uint8_t { none, version, info, warn, call, trace };

/// The level of a line of NCCL, and what follows "host:pid:tid [dev] NCCL INFO ".
struct LogPrefix {
  LogLevel level = LogLevel::none;
  std::string_view file;      ///< of warnings: "transport/net_ib.cc:123"
  std::string_view function;  ///< of warnings of 2.30.7 on
  std::string_view text;      ///< the message; the whole line where there is no prefix
};

/// Finds the last prefix of the line, wherever it stands: several processes that write to one pipe leave lines that
/// begin with the prefix of one and go on with the line of another. Any part of host:pid:tid and [dev] may be missing.
/// Without a prefix the level is none and the origin empty, or the level is version ("NCCL version 2.x" alone) and the
/// origin at most a decoration.
LogPrefix split_log_prefix(std::string_view line, LogOrigin& origin);

/// A timestamp as docker, Kubernetes and syslog put it in front of a line, "2026-05-05T06:16:47.123Z"; empty if there
/// is none.
std::string_view find_iso_timestamp(std::string_view text);

/// The rank in a launcher's decoration: "[1,3]<stdout>:", "3: ", "[3]:", "[rank3]:". -1 if there is none ("[default3]"
/// is a number within its host).
int decoration_rank(std::string_view decoration);

/// A decoration without what changes from line to line (times): it tells processes apart.
std::string decoration_label(std::string_view decoration);

/// The rank in a file's name: "rank_3.log", "rank-03.txt", "nccl.r3". -1 if there is none.
int file_name_rank(std::string_view name);

/// What a line says, of NCCL 2.3 to 2.30, of PyTorch's watchdog or of a kernel, with any launcher's decoration in front
/// of it. `line`: without its end. Lines that are cut or mixed up become OtherLine; never throws, never allocates.
LogLine parse_log_line(std::string_view line);

}  // namespace busbar
