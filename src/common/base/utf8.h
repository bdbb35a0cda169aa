#pragma once

#include <string>
#include <string_view>

namespace busbar {

/// The text with every byte that is no UTF-8 replaced by U+FFFD: host names and messages of libraries come from
/// outside, and XML, Prometheus and SQLite readers refuse a file for one such byte.
std::string valid_utf8(std::string_view text);

}  // namespace busbar
