#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace busbar {

/// Whether a text contains one of these parts.
template <class Parts = std::initializer_list<std::string_view>>
bool has_any(std::string_view text, const Parts& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

/// Whether it begins with one of them.
template <class Parts = std::initializer_list<std::string_view>>
bool begins_with_any(std::string_view text, const Parts& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return text.starts_with(part); });
}

}  // namespace busbar
