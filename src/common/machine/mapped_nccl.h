#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace busbar {

/// 22809 of "2.28.9+cuda13.0", as ncclGetVersion tells it from 2.9 on; older versions are numbered alike, so that
/// numbers can be compared (2.4.8: 20408). 0 where the text does not begin with a version.
int nccl_version_number(std::string_view text);

/// ncclGetVersion's number of the libnccl that a process has loaded, by the file's name or its own text; 0 where it
/// cannot be read, and nothing where the process has loaded no library of that name.
std::optional<int> mapped_nccl_version(std::int64_t pid);

/// The same of a library's file.
int nccl_version_of_file(std::string_view path);

}  // namespace busbar
