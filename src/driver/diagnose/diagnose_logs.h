#pragma once

#include "driver/diagnose/job_log.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace busbar {

struct ReadLogs {
  JobLog job;
  std::vector<LogFile> files;        ///< in the order given
  std::vector<std::string> unknown;  ///< "FILE:LINE: text" of NCCL's lines that were not understood, the first ones
};

/// Reads them all, in as many threads as there are cores; what is found does not depend on their number.
/// `unknown_lines`: how many of those to keep.
ReadLogs read_logs(std::span<const std::filesystem::path> files, std::size_t unknown_lines);

}  // namespace busbar
