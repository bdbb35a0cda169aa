#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace busbar {

/// 22809 for "2.28.9+cuda13.0", as ncclGetVersion returns since 2.9; older versions are numbered alike, so that numbers
/// can be compared (2.4.8: 20408). 0 if the text does not begin with a version.
int nccl_version_number(std::string_view text);

/// ncclGetVersion's number for the libnccl that a process has loaded, from the file's name or its own strings; 0 if it
/// cannot be read, nullopt if the process has loaded no library of that name.
std::optional<int> mapped_nccl_version(std::int64_t pid);

/// The same for a library's file.
int nccl_version_of_file(std::string_view path);

}  // namespace busbar
