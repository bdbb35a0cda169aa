#pragma once

#include "driver/diagnose/log_fact.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// A file that was read, or why it was not.
struct LogFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::uint64_t lines = 0;
  std::uint64_t nccl_lines = 0;
  std::uint64_t unknown_lines = 0;  ///< of NCCL, but not understood
  std::string trouble;              ///< "binary", "Permission denied"; empty: read whole
  std::uint64_t cut_lines = 0;      ///< longer than 64 KiB: what is behind was not looked at
};

/// The files that paths name, each once: files themselves ("-": standard input), and the regular files in folders,
/// however deep, in order of name. A folder that cannot be listed is itself in the list. Throws Error where a path does
/// not exist.
std::vector<std::filesystem::path> find_log_files(std::span<const std::filesystem::path> paths);

/// Reads a file ("-": standard input) in pieces (memory stays bounded whatever its size or its lines' lengths;
/// compressed files, pipes and devices are not read) and hands over each line's meaning with its number, from 1. The
/// texts in it live until `on_line` returns. A file that is still being written is read as far as it was at the start.
/// Never throws for what is in the file; what `on_line` throws ends the reading.
LogFile read_log_file(const std::filesystem::path& path,
                      const std::function<void(const LogLine& line, std::uint64_t number)>& on_line);

}  // namespace busbar
