#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace busbar {

inline constexpr std::size_t kNotFound = std::string_view::npos;

/// The parts between separators, as views of `text`; nothing after a last one ("a,,b," has the parts a, "" and b).
inline std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    parts.push_back(text.substr(0, text.find(separator)));
    text.remove_prefix(std::min(text.size(), parts.back().size() + 1));
  }
  return parts;
}

/// The same with the part after the last separator, empty or not: "a,," has the parts a, "" and "".
inline std::vector<std::string_view> split_list(std::string_view text, char separator = ',') {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// The words between commas that are not empty.
inline std::vector<std::string> listed_words(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view word : split_text(text, ',')) {
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

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

/// In lower case, ASCII letters only.
inline std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

/// Without leading and trailing white space.
constexpr std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Without these at its beginning and end.
constexpr std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The number at the beginning of a text; nullopt if there is none, or if it does not fit. `base`: of whole numbers;
/// `end`, if given, gets what follows the number.
template <class Number>
std::optional<Number> leading_number(std::string_view text, int base = 10, std::string_view* end = nullptr) {
  Number value{};
  std::from_chars_result read{};
  if constexpr (std::is_floating_point_v<Number>) {
    read = std::from_chars(text.data(), text.data() + text.size(), value);
  } else {
    read = std::from_chars(text.data(), text.data() + text.size(), value, base);
  }
  if (read.ec != std::errc{}) return std::nullopt;
  if (end != nullptr) *end = text.substr(static_cast<std::size_t>(read.ptr - text.data()));
  return value;
}

/// The number that the whole text is, from first to last letter.
template <class Number>
std::optional<Number> number_of(std::string_view text, int base = 10) {
  std::string_view end;
  const std::optional<Number> value = leading_number<Number>(text, base, &end);
  return end.empty() ? value : std::nullopt;
}

/// "1 rank", "3 ranks".
std::string counted(std::integral auto n, std::string_view noun) {
  return std::to_string(n).append(1, ' ').append(noun).append(n == 1 ? "" : "s");
}

/// Words with a separator between them.
inline std::string joined_words(const std::vector<std::string>& words, std::string_view separator = " ") {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : separator).append(word);
  return text;
}

inline constexpr std::size_t kColumns = 120;

/// Text broken at spaces into lines of at most `columns` columns, each with a line end. A word that is longer than a
/// line stays whole; runs of spaces become one. `first` and `later`: indents of the first line and of the others.
std::string wrapped(std::string_view text, std::size_t first, std::size_t later, std::size_t columns = kColumns);

inline constexpr char32_t kNoCharacter = 0xFFFD;

struct Character {
  char32_t code = kNoCharacter;
  std::size_t nbytes = 1;  ///< its length in the text
};

/// The first character of a text that is not empty (RFC 3629); an invalid one is one byte of kNoCharacter.
Character first_character(std::string_view text);

/// Characters that steer a terminal (C0, C1) or mislead a reader (marks of the writing direction, other line ends).
bool is_misleading(char32_t code);

/// Untrusted text for messages: one line, '?' for misleading characters and invalid UTF-8, cut after 60 bytes.
std::string printable(std::string_view text);

/// printable() in quotes.
std::string in_quotes(std::string_view text);

/// The text with U+FFFD for every byte that is invalid UTF-8, and for characters from DEL on that mislead. Host names
/// and messages of libraries come from outside, and XML, Prometheus and SQLite readers refuse a file for one such byte.
std::string valid_utf8(std::string_view text);

/// The whole text with '?' for misleading characters and invalid UTF-8: untrusted text must not steer a terminal.
std::string without_controls(std::string_view text, bool keeps_newlines = false);

}  // namespace busbar
