#include "driver/diagnose/log_timestamp.h"

#include "driver/diagnose/log_scan.h"

#include <cstddef>
#include <string_view>

namespace busbar {

std::string_view find_iso_timestamp(std::string_view text) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00";
  for (std::size_t at = 0; at + kShape.size() <= text.size(); ++at) {
    // Only the '-' in the fifth place is looked for in most places.
    if (text[at + 4] != '-') continue;
    std::size_t same = 0;
    while (same < kShape.size()) {
      const char want = kShape[same], is = text[at + same];
      if (want == '0' ? !is_digit(is) : is != want && !(want == 'T' && is == ' ')) break;
      ++same;
    }
    if (same < kShape.size()) continue;
    std::size_t end = at + same;
    while (end < text.size() &&
           (is_digit(text[end]) || std::string_view(".,:+-Z").find(text[end]) != std::string_view::npos))
      ++end;
    while (text[end - 1] == ':' || text[end - 1] == ',') --end;
    return text.substr(at, end - at);
  }
  return {};
}

bool has_clock(std::string_view text) {
  for (std::size_t at = 2; at + 5 < text.size(); ++at) {
    const auto two = [&](std::size_t from) { return is_digit(text[from]) && is_digit(text[from + 1]); };
    if (text[at] == ':' && text[at + 3] == ':' && two(at - 2) && two(at + 1) && two(at + 4)) return true;
  }
  return false;
}

}  // namespace busbar
