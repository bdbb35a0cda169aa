#pragma once

#include <string>
#include <string_view>

namespace busbar {

/// The text with every byte that is no UTF-8 replaced by U+FFFD: host names and messages of libraries come from
/// outside, and XML, Prometheus and SQLite readers refuse a file for one such byte.
std::string valid_utf8(std::string_view text);

/// The text with '?' for what steers a terminal: nothing in a foreign text may.
std::string without_controls(std::string text, bool keeps_newlines = false);

}  // namespace busbar
