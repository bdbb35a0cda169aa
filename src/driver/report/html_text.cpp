#include "driver/report/html_text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace busbar {
namespace {

struct Character {
  char32_t code = 0xFFFD;
  std::size_t nbytes = 1;  ///< that it takes in the text
};

/// The first character of the text (RFC 3629); what is none is one replaced byte.
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

/// Characters that make a reader see another text than is there.
bool misleading(char32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0) ||
         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0x200E || code == 0x200F;
}

}  // namespace

std::string html_text(std::string_view text, std::size_t most) {
  std::string result;
  result.reserve(text.size() + text.size() / 8);
  for (std::size_t i = 0; i < text.size();) {
    if (i >= most) return result + "\u2026";
    const Character c = first_character(text.substr(i));
    switch (c.code) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        if (c.code == 0xFFFD || misleading(c.code))
          result += "\uFFFD";
        else
          result += text.substr(i, c.nbytes);
    }
    i += c.nbytes;
  }
  return result;
}

std::string three_digits(double value) {
  if (!std::isfinite(value)) return "?";
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size < 1e-3 || size >= 1e9) return fmt::format("{:.2e}", value);
  const int before = static_cast<int>(std::floor(std::log10(size)));
  return fmt::format("{:.{}f}", value, before >= 2 ? 0 : 2 - before);
}

std::string time_words(double time_s) {
  if (time_s >= 0.9995) return three_digits(time_s) + " s";
  if (time_s >= 0.9995e-3) return three_digits(time_s * 1e3) + " ms";
  return three_digits(time_s * 1e6) + " µs";
}

}  // namespace busbar
