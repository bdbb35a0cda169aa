#pragma once

#include <cstddef>
#include <string>

namespace busbar {

inline constexpr std::size_t kColumns = 120;

/// Text broken at blanks into lines of at most kColumns, the last one ended too; a word that is longer than a line
/// stays whole, runs of blanks become one. `first` and `later`: indents of the first line and of the others.
std::string wrapped(const std::string& text, std::size_t first, std::size_t later);

}  // namespace busbar
