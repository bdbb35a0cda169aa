#include "common/base/text.h"

#include <cstddef>

namespace busbar {
namespace {

/// Length of the character at the start of `text`; 0 where its first byte starts none (RFC 3629: no overlong forms, no
/// surrogates, nothing above U+10FFFF).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool second = follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF);
    return second && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool second = follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) {
      valid += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else {
      valid += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return valid;
}

std::string without_controls(std::string text, bool keeps_newlines) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && !(keeps_newlines && c == '\n')) || byte == 0x7f) c = '?';
  }
  return text;
}

std::string printable(std::string_view text) {
  static constexpr std::size_t kMaxShown = 60;
  std::string result;
  for (unsigned char c : text.substr(0, kMaxShown)) result += c < 32 || c == 127 ? '?' : static_cast<char>(c);
  return text.size() > kMaxShown ? result + "..." : result;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

}  // namespace busbar
