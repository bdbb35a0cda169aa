#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace busbar {

// An enum and its words are one table, read both ways. A word of a file or a message becomes a value where it is read,
// and no later code compares words. The words are in the order of the enumerators; if an enum has one such table, that
// is words_of(enumerator).

template <std::size_t n>
using EnumWords = std::array<std::string_view, n>;

/// "unknown" for values that are no enumerator.
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

template <class Enum>
constexpr auto name(Enum value) -> decltype(word(words_of(value), value)) {
  return word(words_of(value), value);
}

/// Whether it is the last enumerator with a word.
template <class Enum>
constexpr bool is_last(Enum value) {
  return words_of(value).size() == static_cast<std::size_t>(value) + 1;
}

template <class Enum>
constexpr std::optional<Enum> from_word(std::string_view text) {
  return from_word<Enum>(words_of(Enum{}), text);
}

}  // namespace busbar
