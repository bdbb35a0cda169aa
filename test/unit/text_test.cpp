// Would catch: a log line, a host name or a file name that moves the cursor, colours or renames the terminal, or lets a
// reader see another text than is there: escape sequences, C1 in both spellings, marks of the direction of writing.

#include "common/base/text.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace busbar;

namespace {

std::string utf8(char32_t code) {
  const auto byte = [](char32_t bits) { return static_cast<char>(bits); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6U), byte(0x80 | (code & 0x3F))};
  return {byte(0xE0 | code >> 12U), byte(0x80 | (code >> 6U & 0x3F)), byte(0x80 | (code & 0x3F))};
}

}  // namespace

TEST_CASE("Nothing in a foreign text steers a terminal or turns the writing around", "[text][base]") {
  std::vector<char32_t> bad{0x7F, 0x61C, 0x200E, 0x200F, 0x2028, 0x2029};
  for (char32_t c = 0; c < 0x20; ++c) bad.push_back(c);
  for (char32_t c = 0x80; c < 0xA0; ++c) bad.push_back(c);
  for (char32_t c = 0x202A; c <= 0x202E; ++c) bad.push_back(c);
  for (char32_t c = 0x2066; c <= 0x2069; ++c) bad.push_back(c);
  for (const char32_t c : bad) {
    INFO("U+" << std::hex << static_cast<unsigned>(c));
    CHECK(without_controls("a" + utf8(c) + "b") == "a?b");
    CHECK(printable("a" + utf8(c) + "b") == "a?b");
  }
  // The same by one byte, as a terminal that is not set to UTF-8 reads it.
  for (int byte = 0x80; byte < 0xA0; ++byte) {
    CHECK(without_controls(std::string("a") + static_cast<char>(byte) + "b") == "a?b");
  }
  CHECK(without_controls("\x1B]0;renamed\x07\x1B[2J\x1B[31mred") == "?]0;renamed??[2J?[31mred");
  CHECK(in_quotes("\x9B"
                  "31m") == "'?31m'");
}

TEST_CASE("What people write stays as it is", "[text][base]") {
  for (const std::string text : {"node1", "Knoten-größe", "µs ± 3 %, 日本語, \xF0\x9F\x98\x80", ""}) {
    CHECK(without_controls(text) == text);
    CHECK(printable(text) == text);
    CHECK(valid_utf8(text) == text);
  }
  CHECK(without_controls("two\nlines", true) == "two\nlines");
  CHECK(without_controls("two\nlines") == "two?lines");
  CHECK(without_controls("a\tb", true) == "a?b");
}

TEST_CASE("Bytes that are no UTF-8 are none in messages, and marked in files", "[text][base]") {
  // Overlong, a surrogate, above U+10FFFF, cut short.
  for (const std::string text : {"\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"}) {
    CHECK(without_controls(text) == std::string(text.size(), '?'));
    std::string marks;
    for (std::size_t i = 0; i < text.size(); ++i) marks += "\xEF\xBF\xBD";
    CHECK(valid_utf8(text) == marks);
  }
  CHECK(valid_utf8("\xEF\xBF\xBD") == "\xEF\xBF\xBD");
  CHECK(without_controls("\xEF\xBF\xBD") == "\xEF\xBF\xBD");
}

TEST_CASE("A long text is cut after 60 bytes, between characters", "[text][base]") {
  CHECK(printable(std::string(60, 'x')) == std::string(60, 'x'));
  CHECK(printable(std::string(61, 'x')) == std::string(60, 'x') + "...");
  CHECK(printable(std::string(59, 'x') + "\xC3\xA9z") == std::string(59, 'x') + "...");
}
