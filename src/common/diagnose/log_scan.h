#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <system_error>

namespace busbar {

// Reading a line of a log from left to right. Everything here is inline and allocates nothing: it runs once per word of
// gigabytes of text.

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_blank(char c) { return c == ' ' || c == '\t'; }
inline bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
inline bool is_name(char c) { return is_digit(c) || is_upper(c) || (c >= 'a' && c <= 'z') || c == '_'; }

inline std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Where `word` stands in a text, npos: nowhere. `rare`: index of the letter of the word that is the rarest in logs;
/// only where it stands is the word compared.
inline std::size_t find_word(std::string_view text, std::string_view word, std::size_t rare) {
  for (std::size_t from = rare; from < text.size(); ++from) {
    const void* hit = std::memchr(text.data() + from, word[rare], text.size() - from);
    if (hit == nullptr) break;
    from = static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
    if (text.substr(from - rare).starts_with(word)) return from - rare;
  }
  return std::string_view::npos;
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

  /// Up to the next blank, which is taken too.
  std::string_view word() {
    std::size_t end = 0;
    while (end < rest.size() && !is_blank(rest[end])) ++end;
    const std::string_view found = rest.substr(0, end);
    rest.remove_prefix(end);
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
  bool number(Integer& value, int base = 10) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
    if (error != std::errc()) return false;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return true;
  }

  bool number(double& value) {
    double found = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), found);
    if (error != std::errc() || !std::isfinite(found)) return false;
    value = found;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return true;
  }
};

/// A number that is a whole word. False, and the value as before: it is none.
template <class Number>
bool whole_number(std::string_view word, Number& value, int base = 10) {
  Number found{};
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, found, base);
  if (error != std::errc() || stop != end) return false;
  value = found;
  return true;
}

/// "0x7f5128002e10"; "(nil)" and the "0x..." of documents are 0. False: no pointer.
inline bool pointer_of(std::string_view word, std::uint64_t& value) {
  if (word == "(nil)" || word.starts_with("0x...")) {
    value = 0;
    return true;
  }
  return word.starts_with("0x") && whole_number(word.substr(2), value, 16);
}

}  // namespace busbar
