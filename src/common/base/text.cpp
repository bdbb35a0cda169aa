#include "common/base/text.h"

namespace busbar {

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t nbytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < nbytes) return {};
  char32_t code = lead & (0xFFU >> (nbytes + 1));
  for (std::size_t i = 1; i < nbytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  const char32_t least = nbytes == 4 ? 0x10000 : nbytes == 3 ? 0x800 : 0x80;
  if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {code, nbytes};
}

bool is_misleading(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

namespace {

bool is_no_character(const Character& c) { return c.code == kNoCharacter && c.nbytes == 1; }

/// The text with `by` in place of each character for which `is_bad` holds.
template <class IsBad>
std::string replaced(std::string_view text, std::string_view by, IsBad is_bad) {
  std::string good;
  good.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    good += is_bad(c) ? by : text.substr(0, c.nbytes);
    text.remove_prefix(c.nbytes);
  }
  return good;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  return replaced(text, "\xEF\xBF\xBD",
                  [](const Character& c) { return is_no_character(c) || (c.code >= 0x7F && is_misleading(c.code)); });
}

std::string without_controls(std::string_view text, bool keeps_newlines) {
  return replaced(text, "?", [&](const Character& c) {
    return (is_misleading(c.code) && !(keeps_newlines && c.code == '\n')) || is_no_character(c);
  });
}

std::string printable(std::string_view text) {
  static constexpr std::size_t kMaxShown = 60;
  if (text.size() <= kMaxShown) return without_controls(text);
  std::size_t shown = 0;
  for (std::size_t next = 0; next <= kMaxShown; next += first_character(text.substr(next)).nbytes) shown = next;
  return without_controls(text.substr(0, shown)) + "...";
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

std::string wrapped(std::string_view text, std::size_t first, std::size_t later, std::size_t columns) {
  std::string out(first, ' ');
  std::size_t column = first;
  bool fresh = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (!fresh && column + 1 + word.size() > columns) {
      out += '\n' + std::string(later, ' ');
      column = later;
      fresh = true;
    }
    if (!fresh) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    fresh = false;
  }
  return out + '\n';
}

}  // namespace busbar
