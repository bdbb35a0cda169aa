#pragma once

#include "common/base/text.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace busbar {

// Reads a line of a log from left to right. Everything here is inline and allocates nothing, because it runs once per
// word of gigabytes of text.

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_blank(char c) { return c == ' ' || c == '\t'; }
inline bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
inline bool is_name(char c) { return is_digit(c) || is_upper(c) || (c >= 'a' && c <= 'z') || c == '_'; }

inline std::string_view without_blanks(std::string_view text) { return trimmed(text, " \t"); }

/// The rest of a line. Each function takes from the front what its name says, or returns false (or an empty string) and
/// changes nothing.
struct LogScan {
  std::string_view rest;

  bool take(std::string_view words) {
    if (!rest.starts_with(words)) return false;
    rest.remove_prefix(words.size());
    return true;
  }

  void skip_blanks() {
    while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
  }

  /// Up to the next ' '; takes this space and any more after it.
  std::string_view word() {
    const std::string_view found = rest.substr(0, rest.find(' '));
    rest.remove_prefix(found.size());
    skip_blanks();
    return found;
  }

  /// Letters, digits and '_'.
  std::string_view name() {
    std::size_t end = 0;
    while (end < rest.size() && is_name(rest[end])) ++end;
    const std::string_view found = rest.substr(0, end);
    rest.remove_prefix(end);
    return found;
  }

  /// Takes no number that does not fit, no inf and no nan.
  template <class Number>
  bool number(Number& value, int base = 10) {
    std::string_view behind;
    const std::optional<Number> found = leading_number<Number>(rest, base, &behind);
    if (!found || !std::isfinite(static_cast<double>(*found))) return false;
    value = *found;
    rest = behind;
    return true;
  }

  bool hexadecimal(std::uint64_t& value) { return number(value, 16); }
};

/// A number that is a whole word. False, with the value unchanged, if the word is not a number.
template <class Integer>
bool whole_number(std::string_view word, Integer& value, int base = 10) {
  const std::optional<Integer> found = number_of<Integer>(word, base);
  value = found.value_or(value);
  return found.has_value();
}

/// "0x7f5128002e10"; "(nil)" and the "0x..." of documents are 0. False if the word is not a pointer.
inline bool pointer_of(std::string_view word, std::uint64_t& value) {
  const bool digits = word.size() > 2 && word[0] == '0' && word[1] == 'x';
  if (!digits || word[2] == '.') {
    if (word != "(nil)" && !word.starts_with("0x...")) return false;
    value = 0;
    return true;
  }
  return whole_number(word.substr(2), value, 16);
}

}  // namespace busbar
