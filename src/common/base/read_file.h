#pragma once

#include "common/base/input_limits.h"

#include <cstdint>
#include <string>

namespace busbar {

/// A whole file; throws Error(bad_config) saying what it was to be, also where it holds more than `most_bytes`, which a
/// device or a pipe may do without an end. For process 0: the others get the text from it.
std::string read_file(const std::string& path, const std::string& what, std::uint64_t most_bytes = kMostFileBytes);

}  // namespace busbar
