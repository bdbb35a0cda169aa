#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace busbar {

// An enum and its words are one table, read both ways: what a file or a message says is turned into a value where it
// is read, and nothing behind that decides by a word. The words stand in the order of the enumerators.

/// "unknown" for what is not an enumerator.
template <class Enum, std::size_t n>
constexpr std::string_view word(const std::array<std::string_view, n>& words, Enum value) {
  const auto at = static_cast<std::size_t>(value);
  return at < n ? words[at] : std::string_view("unknown");
}

template <class Enum, std::size_t n>
constexpr std::optional<Enum> from_word(const std::array<std::string_view, n>& words, std::string_view text) {
  for (std::size_t i = 0; i < n; ++i) {
    if (words[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace busbar
