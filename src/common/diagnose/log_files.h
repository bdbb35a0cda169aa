#pragma once

#include "common/diagnose/log_fact.h"

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
  std::string trouble;              ///< "binary", "no permission"; empty: read whole
};

/// The regular files that paths name: files themselves, and those in folders, however deep, in order of name. Throws
/// Error where a path does not exist.
std::vector<std::filesystem::path> find_log_files(std::span<const std::filesystem::path> paths);

/// Reads a file in pieces (memory stays bounded whatever its size or its lines' lengths; gzip is not read) and hands
/// over each line's meaning with its number, from 1. Never throws for what is in the file.
LogFile read_log_file(const std::filesystem::path& path,
                      const std::function<void(const LogLine& line, std::uint64_t number)>& tell);

}  // namespace busbar
