#pragma once

#include "common/base/text.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

namespace busbar {

// Reading a line of a log from left to right. Everything here is inline and allocates nothing: it runs once per
// word of gigabytes of text.

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_blank(char c) { return c == ' ' || c == '\t'; }
inline bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
inline bool is_name(char c) { return is_digit(c) || is_upper(c) || (c >= 'a' && c <= 'z') || c == '_'; }

inline std::string_view without_blanks(std::string_view text) { return trimmed(text, " \t"); }

/// Reads digits of base 10 or 16 from the front of a text and returns how many; 0 where there are none, or too many for
/// 64 bits.
template <unsigned kBase>
std::size_t read_digits(std::string_view text, std::uint64_t& value) {
  constexpr std::size_t kMost = kBase == 10 ? 19 : 16;  // that fit, whatever they are
  std::uint64_t found = 0;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    unsigned digit = static_cast<unsigned>(c) - '0';
    if (kBase == 16 && digit > 9) digit = (c | 0x20u) - 'a' < 6 ? (c | 0x20u) - 'a' + 10 : kBase;
    if (digit >= kBase) break;
    if (at == kMost) return 0;
    found = found * kBase + digit;
  }
  if (at > 0) value = found;
  return at;
}

/// What is left of a text. Each function takes what it is named after from the front, or returns false (an empty text)
/// and leaves everything as it was.
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

  /// Up to the next ' ', which is taken too, with more of them.
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

  template <class Integer>
  bool number(Integer& value) {
    std::uint64_t found = 0;
    const bool negative = std::is_signed_v<Integer> && !rest.empty() && rest.front() == '-';
    const std::size_t digits = read_digits<10>(rest.substr(negative ? 1 : 0), found);
    if (digits == 0 || found > static_cast<std::uint64_t>(std::numeric_limits<Integer>::max())) return false;
    value = static_cast<Integer>(negative ? std::uint64_t{0} - found : found);
    rest.remove_prefix(digits + (negative ? 1 : 0));
    return true;
  }

  bool hexadecimal(std::uint64_t& value) {
    const std::size_t digits = read_digits<16>(rest, value);
    rest.remove_prefix(digits);
    return digits > 0;
  }

  bool number(double& value) {
    std::string_view behind;
    const std::optional<double> found = leading_number<double>(rest, 10, &behind);
    if (!found || !std::isfinite(*found)) return false;
    value = *found;
    rest = behind;
    return true;
  }
};

/// A number that is a whole word. False, and the value unchanged, where the word is not a number.
template <class Integer>
bool whole_number(std::string_view word, Integer& value) {
  LogScan scan{word};
  Integer found{};
  if (!scan.number(found) || !scan.rest.empty()) return false;
  value = found;
  return true;
}

/// "0x7f5128002e10"; "(nil)" and the "0x..." of documents are 0. False where the word is not a pointer.
inline bool pointer_of(std::string_view word, std::uint64_t& value) {
  const bool digits = word.size() > 2 && word[0] == '0' && word[1] == 'x';
  if (!digits || word[2] == '.') {
    if (word != "(nil)" && !word.starts_with("0x...")) return false;
    value = 0;
    return true;
  }
  std::uint64_t found = 0;
  if (read_digits<16>(word.substr(2), found) != word.size() - 2) return false;
  value = found;
  return true;
}

}  // namespace busbar
