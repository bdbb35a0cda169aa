#pragma once

#include <string>

namespace busbar {

/// A whole file; throws Error(bad_config) saying what it was to be. For process 0: the others get the text from it.
std::string read_file(const std::string& path, const std::string& what);

}  // namespace busbar
